// Sums and maxima over the threads of a block, in an order that never changes.
#pragma once

#include <cstdint>

namespace lazytrain::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

struct Sum {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Max {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

// Over groups of `width` neighbouring lanes (a power of two up to 32); every lane gets the result.
template <typename T, typename Combine>
__device__ inline T ReduceLanes(T value, int width, Combine combine) {
  for (int offset = width / 2; offset > 0; offset /= 2) {
    value = combine(value, __shfl_xor_sync(kAllLanes, value, offset));
  }
  return value;
}

// Over a block of whole warps; every thread gets the result. `scratch` holds 32 values and may be
// used again behind the next barrier only.
template <typename T, typename Combine>
__device__ inline T ReduceBlock(T value, T* scratch, Combine combine) {
  const int thread = static_cast<int>(threadIdx.x + threadIdx.y * blockDim.x);
  const int warps = static_cast<int>(blockDim.x * blockDim.y) / 32;
  value = ReduceLanes(value, 32, combine);
  if (thread % 32 == 0) scratch[thread / 32] = value;
  __syncthreads();
  T result = scratch[0];
  for (int w = 1; w < warps; ++w) result = combine(result, scratch[w]);
  return result;
}

}  // namespace lazytrain::cuda
