#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/vectors.cuh"
#include "ops/swiglu.h"

namespace lazytrain::cuda {
namespace {

constexpr int kThreads = 256;

__device__ inline float Sigmoid(float x, float /*as*/) { return 1.0f / (1.0f + expf(-x)); }
// The fast exponential's error lies far below bfloat16's.
__device__ inline float Sigmoid(float x, __nv_bfloat16 /*as*/) {
  return __fdividef(1.0f, 1.0f + __expf(-x));
}

// A thread takes N neighbouring channels of one row; n is a multiple of N.
template <typename T, int N>
__global__ void ForwardKernel(const T* gate_up, uint32_t count, uint32_t n, T* act) {
  const uint32_t vector = blockIdx.x * kThreads + threadIdx.x;
  if (vector >= count) return;
  const int64_t row = vector / (n / N);
  const int64_t i = int64_t{vector} * N;
  const T* from = gate_up + row * n + i;  // row * 2 n + (i - row n)
  const auto gate = Vec<T, N>::Load(from);
  const auto up = Vec<T, N>::Load(from + n);
  float values[N];
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float g = AsFloat(gate.at[k]);
    values[k] = g * Sigmoid(g, T()) * AsFloat(up.at[k]);
  }
  PutVec<T, N>(act + i, values, false);
}

// silu'(g) = s (1 + g (1 - s)), s = sigmoid(g).
template <typename T, int N>
__global__ void BackwardKernel(const T* gate_up, const T* d_act, uint32_t count, uint32_t n,
                               bool accumulate, T* d_gate_up) {
  const uint32_t vector = blockIdx.x * kThreads + threadIdx.x;
  if (vector >= count) return;
  const int64_t row = vector / (n / N);
  const int64_t i = int64_t{vector} * N;
  const int64_t at = row * n + i;
  const auto gate = Vec<T, N>::Load(gate_up + at);
  const auto up = Vec<T, N>::Load(gate_up + at + n);
  const auto d = Vec<T, N>::Load(d_act + i);
  float gate_part[N];
  float up_part[N];
#pragma unroll
  for (int k = 0; k < N; ++k) {
    const float g = AsFloat(gate.at[k]);
    const float s = Sigmoid(g, T());
    const float da = AsFloat(d.at[k]);
    gate_part[k] = da * AsFloat(up.at[k]) * (s * (1.0f + g * (1.0f - s)));
    up_part[k] = da * (g * s);
  }
  PutVec<T, N>(d_gate_up + at, gate_part, accumulate);
  PutVec<T, N>(d_gate_up + at + n, up_part, accumulate);
}

}  // namespace

void SwigluForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const int64_t n = static_cast<const Swiglu&>(base).intermediate;
  const TensorView& x = args.inputs[0];
  const TensorView& y = args.outputs[0];
  if (x.rows == 0) return;
  WithElementType(x.dtype, [&](auto element) {
    using T = decltype(element);
    WithWidth<T>(n, IsAligned(x.data) && IsAligned(y.data), [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      const uint32_t count = Count32(x.rows * n / kWidth);
      ForwardKernel<T, kWidth><<<Blocks(count, kThreads), kThreads, 0, Cuda(context).stream()>>>(
          x.as<const T>(), count, Count32(n), y.as<T>());
    });
  });
  CheckLaunch("swiglu");
}

void SwigluBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  const int64_t n = static_cast<const Swiglu&>(base).intermediate;
  const TensorView& x = args.inputs[0];
  const TensorView& d_y = args.d_outputs[0];
  const TensorView& d_x = args.d_inputs[0];
  if (!d_x.present() || x.rows == 0) return;
  WithElementType(x.dtype, [&](auto element) {
    using T = decltype(element);
    const bool aligned = IsAligned(x.data) && IsAligned(d_y.data) && IsAligned(d_x.data);
    WithWidth<T>(n, aligned, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      const uint32_t count = Count32(x.rows * n / kWidth);
      BackwardKernel<T, kWidth><<<Blocks(count, kThreads), kThreads, 0, Cuda(context).stream()>>>(
          x.as<const T>(), d_y.as<const T>(), count, Count32(n), args.accumulate_inputs[0],
          d_x.as<T>());
    });
  });
  CheckLaunch("swiglu backward");
}

}  // namespace lazytrain::cuda
