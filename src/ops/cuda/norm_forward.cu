#include "ops/cuda/norm_parts.cuh"
#include "ops/cuda/norm_rows.h"
#include "ops/cuda/reduce.cuh"

namespace lazytrain::cuda {
namespace {

// What is done once a row every thread of it does, hence few threads a row, as far as registers
// still hold several blocks.
Shares SharesFor(int64_t size, DType dtype) {
  if (!IsWide(size, dtype)) return {kNarrowThreads, 1, 0};
  const int64_t vectors = size / (16 / SizeOf(dtype));
  if (vectors <= 16) return {8, kNarrowThreads / 8, vectors <= 8 ? 1 : 2};
  if (vectors <= 64) return {32, kNarrowThreads / 32, vectors <= 32 ? 1 : 2};
  const int held = vectors <= 128 ? 2 : 4;
  return {static_cast<int>(RoundUp(CeilDiv(vectors, held), 32)), 1, held};
}

template <bool kWarps>
__device__ inline float ReduceRow(float value, float* scratch) {
  if constexpr (kWarps) return ReduceBlock(value, scratch, Sum());
  return ReduceLanes(value, static_cast<int>(blockDim.x), Sum());
}

// A thread's share of a row.
template <typename T, int kVectors>
struct Held {
  Vec<T, kWide<T>> at[kVectors];

  __device__ void Load(int size, int64_t start, const T* from) {
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int col = static_cast<int>(threadIdx.x + i * blockDim.x) * kWide<T>;
      if (start >= 0 && col < size) at[i] = Vec<T, kWide<T>>::Load(from + start + col);
    }
  }
};

template <typename T, int kVectors, bool kWarps>
__global__ void __launch_bounds__(kWarps ? kMaxThreads : 256)
    ForwardKernel(const __grid_constant__ Norm norm, const T* x, const T* residual, T* y) {
  constexpr int N = kWide<T>;
  __shared__ float scratch[32];
  const Part& part = norm.parts[norm.PartOfBlock()];
  const int64_t start =
      norm.At(part, int64_t{blockIdx.x - part.first_block} * blockDim.y + threadIdx.y);
  Held<T, kVectors> values;
  values.Load(norm.size, start, x);
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int col = static_cast<int>(threadIdx.x + i * blockDim.x) * N;
    if (start < 0 || col >= norm.size) continue;
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float v = AsFloat(values.at[i].at[k]);
      squares += v * v;
    }
  }
  const float inverse = norm.InverseRms(ReduceRow<kWarps>(squares, scratch));
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int col = static_cast<int>(threadIdx.x + i * blockDim.x) * N;
    if (start < 0 || col >= norm.size) continue;
    if (part.scale == nullptr) {
      values.at[i].Store(y + start + col);
      continue;
    }
    float result[N];
    norm.LoadScale(part, col, result);
#pragma unroll
    for (int k = 0; k < N; ++k) result[k] *= AsFloat(values.at[i].at[k]) * inverse;
    if (residual != nullptr) {
      const auto other = Vec<T, N>::Load(residual + start + col);
#pragma unroll
      for (int k = 0; k < N; ++k) result[k] += AsFloat(other.at[k]);
    }
    PutVec<T, N>(y + start + col, result, false);
  }
}

// For rows of any size: a block a row, element by element.
template <typename T>
__global__ void AnyForwardKernel(const __grid_constant__ Norm norm, const T* x, const T* residual,
                                 T* y) {
  __shared__ float scratch[32];
  const Part& part = norm.parts[norm.PartOfBlock()];
  const int64_t start = norm.At(part, blockIdx.x - part.first_block);
  float squares = 0.0f;
  for (int col = threadIdx.x; col < norm.size; col += blockDim.x) {
    squares += AsFloat(x[start + col]) * AsFloat(x[start + col]);
  }
  const float inverse = norm.InverseRms(ReduceBlock(squares, scratch, Sum()));
  for (int col = threadIdx.x; col < norm.size; col += blockDim.x) {
    float value[1] = {AsFloat(x[start + col])};
    if (part.scale != nullptr) {
      float scale[1];
      norm.LoadScale(part, col, scale);
      value[0] = scale[0] * (value[0] * inverse);
      if (residual != nullptr) value[0] += AsFloat(residual[start + col]);
    }
    PutVec<T, 1>(y + start + col, value, false);
  }
}

// Calls launch(vectors, warps), integral constants.
template <typename Launch>
void WithShares(const Shares& shares, const Launch& launch) {
  if (shares.warps() && shares.vectors == 2) return launch(Constant<2>(), std::true_type());
  if (shares.warps()) return launch(Constant<4>(), std::true_type());
  if (shares.vectors == 2) return launch(Constant<2>(), std::false_type());
  launch(Constant<1>(), std::false_type());
}

}  // namespace

void NormForward(CudaLaneContext& context, const NormShape& shape, const void* x,
                 const NormScales& scales, const void* residual, void* y) {
  if (shape.rows() == 0) return;
  const Shares shares = SharesFor(shape.size, shape.dtype);
  const bool wide = TakesWide(shape, scales, {x, residual, y});
  const auto [norm, blocks] = GridOf(shape, scales, wide ? shares.rows : 1);
  WithElementType(shape.dtype, [&, &norm = norm, blocks = blocks](auto element) {
    using T = decltype(element);
    const auto* from = static_cast<const T*>(x);
    const auto* added = static_cast<const T*>(residual);
    auto* to = static_cast<T*>(y);
    if (!wide) {
      AnyForwardKernel<T><<<blocks, 256, 0, context.stream()>>>(norm, from, added, to);
      return;
    }
    WithShares(shares, [&](auto vectors, auto warps) {
      ForwardKernel<T, decltype(vectors)::value, decltype(warps)::value>
          <<<blocks, dim3(shares.threads, shares.rows), 0, context.stream()>>>(norm, from, added,
                                                                               to);
    });
  });
  CheckLaunch("rms_norm");
}

}  // namespace lazytrain::cuda
