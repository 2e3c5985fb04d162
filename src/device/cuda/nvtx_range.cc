#include "device/cuda/nvtx_range.h"

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCudaRt.h>

namespace lazytrain::cuda {

NvtxRange::NvtxRange(const char* name) { nvtxRangePushA(name); }
NvtxRange::~NvtxRange() { nvtxRangePop(); }

void NameStream(cudaStream_t stream, const char* name) { nvtxNameCudaStreamA(stream, name); }

}  // namespace lazytrain::cuda
