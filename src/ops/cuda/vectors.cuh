// Elements as float32, and 16-byte accesses.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace lazytrain::cuda {

__device__ inline float AsFloat(float x) { return x; }
__device__ inline float AsFloat(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T>
__device__ inline T Rounded(float x);
template <>
__device__ inline float Rounded<float>(float x) {
  return x;
}
template <>
__device__ inline __nv_bfloat16 Rounded<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// Elements of a 16-byte access.
template <typename T>
inline constexpr int kWide = 16 / static_cast<int>(sizeof(T));

// N neighbouring elements, read and written in the widest pieces there are.
template <typename T, int N>
struct Vec {
  static constexpr int kBytes = N * static_cast<int>(sizeof(T));
  static constexpr int kPiece = kBytes >= 16 ? 16 : kBytes;
  alignas(kPiece) T at[N];

  __device__ static Vec Load(const T* from) {
    Vec v;
    if constexpr (kPiece == 16) {
#pragma unroll
      for (int i = 0; i < kBytes / 16; ++i) {
        reinterpret_cast<uint4*>(v.at)[i] = reinterpret_cast<const uint4*>(from)[i];
      }
    } else if constexpr (kPiece == 8) {
      *reinterpret_cast<uint2*>(v.at) = *reinterpret_cast<const uint2*>(from);
    } else if constexpr (kPiece == 4) {
      *reinterpret_cast<uint32_t*>(v.at) = *reinterpret_cast<const uint32_t*>(from);
    } else {
      v.at[0] = from[0];
    }
    return v;
  }
  __device__ void Store(T* to) const {
    if constexpr (kPiece == 16) {
#pragma unroll
      for (int i = 0; i < kBytes / 16; ++i) {
        reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(at)[i];
      }
    } else if constexpr (kPiece == 8) {
      *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(at);
    } else if constexpr (kPiece == 4) {
      *reinterpret_cast<uint32_t*>(to) = *reinterpret_cast<const uint32_t*>(at);
    } else {
      to[0] = at[0];
    }
  }
};

// target (+)= values, rounded once.
template <typename T, int N>
__device__ inline void PutVec(T* target, const float (&values)[N], bool accumulate) {
  Vec<T, N> result;
  if (accumulate) {
    const auto before = Vec<T, N>::Load(target);
#pragma unroll
    for (int i = 0; i < N; ++i) result.at[i] = Rounded<T>(AsFloat(before.at[i]) + values[i]);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) result.at[i] = Rounded<T>(values[i]);
  }
  result.Store(target);
}

}  // namespace lazytrain::cuda
