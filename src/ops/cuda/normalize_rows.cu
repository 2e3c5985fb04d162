#include "ops/cuda/launch.h"
#include "ops/cuda/normalize_rows.h"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda/vectors.cuh"

namespace lazytrain::cuda {
namespace {

constexpr int kThreads = 256;

__device__ inline float InverseLength(float squares) {
  return 1.0f / fmaxf(sqrtf(squares), 1e-12f);
}

// A block a row.
template <typename T, int N>
__global__ void ForwardKernel(const T* weight, int64_t cols, T* to) {
  __shared__ float scratch[32];
  const int64_t start = blockIdx.x * cols;
  float squares = 0.0f;
  for (int64_t col = int64_t{threadIdx.x} * N; col < cols; col += int64_t{kThreads} * N) {
    const auto w = Vec<T, N>::Load(weight + start + col);
#pragma unroll
    for (int k = 0; k < N; ++k) squares += AsFloat(w.at[k]) * AsFloat(w.at[k]);
  }
  const float inverse = InverseLength(ReduceBlock(squares, scratch, Sum()));
  for (int64_t col = int64_t{threadIdx.x} * N; col < cols; col += int64_t{kThreads} * N) {
    const auto w = Vec<T, N>::Load(weight + start + col);
    float values[N];
#pragma unroll
    for (int k = 0; k < N; ++k) values[k] = AsFloat(w.at[k]) * inverse;
    PutVec<T, N>(to + start + col, values, false);
  }
}

template <typename T, int N>
__global__ void BackwardKernel(const T* weight, const float* gradient, int64_t cols,
                               bool accumulate, float* target) {
  __shared__ float scratch[2][32];
  const int64_t start = blockIdx.x * cols;
  float squares = 0.0f;
  float dot = 0.0f;
  for (int64_t col = int64_t{threadIdx.x} * N; col < cols; col += int64_t{kThreads} * N) {
    const auto w = Vec<T, N>::Load(weight + start + col);
    const auto g = Vec<float, N>::Load(gradient + start + col);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      squares += AsFloat(w.at[k]) * AsFloat(w.at[k]);
      dot += AsFloat(w.at[k]) * g.at[k];
    }
  }
  const float inverse = InverseLength(ReduceBlock(squares, scratch[0], Sum()));
  const float along = ReduceBlock(dot, scratch[1], Sum()) * inverse * inverse;
  for (int64_t col = int64_t{threadIdx.x} * N; col < cols; col += int64_t{kThreads} * N) {
    const auto w = Vec<T, N>::Load(weight + start + col);
    const auto g = Vec<float, N>::Load(gradient + start + col);
    float values[N];
#pragma unroll
    for (int k = 0; k < N; ++k) values[k] = inverse * (g.at[k] - AsFloat(w.at[k]) * along);
    PutVec<float, N>(target + start + col, values, accumulate);
  }
}

}  // namespace

void NormalizeRows(CudaLaneContext& context, const TensorView& weight, void* to) {
  WithElementType(weight.dtype, [&](auto element) {
    using T = decltype(element);
    WithWidth<T>(weight.cols, IsAligned(weight.data) && IsAligned(to), [&](auto width) {
      ForwardKernel<T, decltype(width)::value>
          <<<Blocks(weight.rows, 1), kThreads, 0, context.stream()>>>(
              weight.as<const T>(), weight.cols, static_cast<T*>(to));
    });
  });
  CheckLaunch("normalising the head");
}

void NormalizeRowsBackward(CudaLaneContext& context, const TensorView& weight,
                           const TensorView& gradient, bool accumulate, const TensorView& target) {
  const bool aligned = IsAligned(weight.data) && IsAligned(gradient.data) && IsAligned(target.data);
  WithElementType(weight.dtype, [&](auto element) {
    using T = decltype(element);
    WithWidth<T>(weight.cols, aligned, [&](auto width) {
      BackwardKernel<T, decltype(width)::value>
          <<<Blocks(weight.rows, 1), kThreads, 0, context.stream()>>>(
              weight.as<const T>(), gradient.as<const float>(), weight.cols, accumulate,
              target.as<float>());
    });
  });
  CheckLaunch("normalising the head backward");
}

}  // namespace lazytrain::cuda
