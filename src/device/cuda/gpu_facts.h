// What a GPU has.
#pragma once

#include <cstdint>

namespace lazytrain::cuda {

struct GpuFacts {
  int multiprocessors = 0;
  int architecture = 0;        // 90: compute capability 9.0
  int64_t shared_a_block = 0;  // bytes of shared memory that a block may ask for
};

// Of the GPU with this number.
GpuFacts ReadGpuFacts(int device);

}  // namespace lazytrain::cuda
