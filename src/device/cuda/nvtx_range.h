// Names for profilers (NVIDIA's NVTX): a range around what is enqueued, and a stream's name. Where
// no profiler listens they cost nothing to speak of.
#pragma once

#include <cuda_runtime_api.h>

namespace lazytrain::cuda {

class NvtxRange {
 public:
  explicit NvtxRange(const char* name);
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

void NameStream(cudaStream_t stream, const char* name);

}  // namespace lazytrain::cuda
