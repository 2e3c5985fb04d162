#include <algorithm>

#include "ops/cuda/launch.h"
#include "ops/cuda/norm_rows.h"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda/vectors.cuh"

namespace lazytrain::cuda {
namespace {

constexpr int kMaxThreads = 512;  // of a block

// How a kernel's threads share rows: `threads` (blockDim.x) a row, `rows` (blockDim.y) at a time,
// `steps` times in backward. Rows of up to 32 threads are added up by shuffles within a warp,
// longer ones by the whole block.
struct Shares {
  int threads;
  int rows;
  int vectors;  // of kWide elements that a thread holds
  int steps;

  bool block() const { return threads > 32; }
  int64_t rows_a_block() const { return int64_t{rows} * steps; }
};

// Whether registers hold a row: the other kernels read it from memory again, element by element.
bool IsWide(int64_t size, DType dtype) {
  const int64_t width = 16 / SizeOf(dtype);
  return size % width == 0 && size <= kMaxThreads * 4 * width;
}

Shares SharesFor(int64_t size, DType dtype) {
  if (!IsWide(size, dtype)) return {256, 1, 0, 16};
  const int64_t vectors = size / (16 / SizeOf(dtype));
  if (vectors <= 16) return {16, 16, 1, 8};
  if (vectors <= 64) return {32, 8, vectors <= 32 ? 1 : 2, 8};
  // Two loads of a thread are on their way at once, and registers still hold several blocks.
  const int held = vectors <= 2 * kMaxThreads ? 2 : 4;
  return {static_cast<int>(RoundUp(CeilDiv(vectors, held), 32)), 1, held, 8};
}

struct Norm {
  int64_t rows;
  uint32_t groups;
  int size;
  int64_t token_stride;
  float eps;
  float scale_offset;
  const void* scale;
  bool scale_is_bf16;

  // Where a row begins.
  __device__ int64_t At(int64_t row) const {
    if (groups == 1) return row * token_stride;
    const auto r = static_cast<uint32_t>(row);
    const uint32_t token = r / groups;
    return int64_t{token} * token_stride + int64_t{r - token * groups} * size;
  }
  template <int N>
  __device__ void LoadScale(int col, float (&values)[N]) const {
    if (scale_is_bf16) {
      const auto v = Vec<__nv_bfloat16, N>::Load(static_cast<const __nv_bfloat16*>(scale) + col);
#pragma unroll
      for (int k = 0; k < N; ++k) values[k] = AsFloat(v.at[k]) + scale_offset;
    } else {
      const auto v = Vec<float, N>::Load(static_cast<const float*>(scale) + col);
#pragma unroll
      for (int k = 0; k < N; ++k) values[k] = v.at[k] + scale_offset;
    }
  }
  __device__ float InverseRms(float squares) const {
    return 1.0f / sqrtf(squares / static_cast<float>(size) + eps);
  }
};

template <bool kBlock>
__device__ inline float ReduceRow(float value, float* scratch) {
  if constexpr (kBlock) return ReduceBlock(value, scratch, Sum());
  return ReduceLanes(value, static_cast<int>(blockDim.x), Sum());
}

template <typename T, int kVectors, bool kBlock>
__global__ void __launch_bounds__(kMaxThreads)
    ForwardKernel(const Norm norm, const T* x, const T* residual, T* y) {
  constexpr int N = kWide<T>;
  __shared__ float scratch[32];
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  const bool active = row < norm.rows;
  const int64_t start = active ? norm.At(row) : 0;
  Vec<T, N> values[kVectors];
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int col = static_cast<int>(threadIdx.x + i * blockDim.x) * N;
    if (!active || col >= norm.size) continue;
    values[i] = Vec<T, N>::Load(x + start + col);
#pragma unroll
    for (int k = 0; k < N; ++k) squares += AsFloat(values[i].at[k]) * AsFloat(values[i].at[k]);
  }
  const float inverse = norm.InverseRms(ReduceRow<kBlock>(squares, scratch));
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int col = static_cast<int>(threadIdx.x + i * blockDim.x) * N;
    if (!active || col >= norm.size) continue;
    float scale[N];
    norm.LoadScale(col, scale);
#pragma unroll
    for (int k = 0; k < N; ++k) scale[k] *= AsFloat(values[i].at[k]) * inverse;
    if (residual != nullptr) {
      const auto other = Vec<T, N>::Load(residual + start + col);
#pragma unroll
      for (int k = 0; k < N; ++k) scale[k] += AsFloat(other.at[k]);
    }
    PutVec<T, N>(y + start + col, scale, false);
  }
}

// Adds up what the rows of a block (threadIdx.y) have for d_scale, in their order.
template <int kVectors, int N>
__device__ void StorePartial(const float (&sums)[kVectors][N], int size, float* partials) {
  extern __shared__ float shared[];
  const int threads = static_cast<int>(blockDim.x);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int col = static_cast<int>(threadIdx.x + i * blockDim.x) * N;
    if (col >= size) continue;
#pragma unroll
    for (int k = 0; k < N; ++k) shared[threadIdx.y * size + col + k] = sums[i][k];
  }
  __syncthreads();
  const int first = static_cast<int>(threadIdx.x + threadIdx.y * blockDim.x);
  for (int col = first; col < size; col += threads * static_cast<int>(blockDim.y)) {
    float sum = shared[col];
    for (int y = 1; y < static_cast<int>(blockDim.y); ++y) sum += shared[y * size + col];
    partials[int64_t{blockIdx.x} * size + col] = sum;
  }
}

template <typename T, int kVectors, bool kBlock>
__global__ void __launch_bounds__(kMaxThreads)
    BackwardKernel(const Norm norm, int steps, const T* x, const T* d_y, bool accumulate, T* d_x,
                   float* partials) {
  constexpr int N = kWide<T>;
  __shared__ float2 scratch[2][32];
  float scale[kVectors][N];
  float sums[kVectors][N] = {};
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int col = static_cast<int>(threadIdx.x + i * blockDim.x) * N;
    if (col < norm.size) norm.LoadScale(col, scale[i]);
  }
  const int64_t begin = int64_t{blockIdx.x} * blockDim.y * steps;
  for (int step = 0; step < steps; ++step) {
    const int64_t row = begin + int64_t{step} * blockDim.y + threadIdx.y;
    const bool active = row < norm.rows;
    if (kBlock && !active) break;  // the whole block agrees
    const int64_t start = active ? norm.At(row) : 0;
    Vec<T, N> values[kVectors];
    Vec<T, N> gradients[kVectors];
    float2 both = {0.0f, 0.0f};  // squares of x; g times x
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int col = static_cast<int>(threadIdx.x + i * blockDim.x) * N;
      if (!active || col >= norm.size) continue;
      values[i] = Vec<T, N>::Load(x + start + col);
      gradients[i] = Vec<T, N>::Load(d_y + start + col);
    }
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int col = static_cast<int>(threadIdx.x + i * blockDim.x) * N;
      if (!active || col >= norm.size) continue;
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float v = AsFloat(values[i].at[k]);
        both.x += v * v;
        both.y += AsFloat(gradients[i].at[k]) * scale[i][k] * v;
      }
    }
    both.x = ReduceLanes(both.x, kBlock ? 32 : static_cast<int>(blockDim.x), Sum());
    both.y = ReduceLanes(both.y, kBlock ? 32 : static_cast<int>(blockDim.x), Sum());
    if constexpr (kBlock) {
      // Two scratch areas by turns: one barrier a row is enough.
      float2* area = scratch[step % 2];
      if (threadIdx.x % 32 == 0) area[threadIdx.x / 32] = both;
      __syncthreads();
      both = area[0];
      for (unsigned w = 1; w < blockDim.x / 32; ++w) {
        both.x += area[w].x;
        both.y += area[w].y;
      }
    }
    const float inverse = norm.InverseRms(both.x);
    const float along = both.y * inverse * inverse / static_cast<float>(norm.size);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int col = static_cast<int>(threadIdx.x + i * blockDim.x) * N;
      if (!active || col >= norm.size) continue;
      float result[N];
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float v = AsFloat(values[i].at[k]);
        const float d = AsFloat(gradients[i].at[k]);
        sums[i][k] += d * (v * inverse);
        result[k] = inverse * (d * scale[i][k] - v * along);
      }
      if (d_x != nullptr) PutVec<T, N>(d_x + start + col, result, accumulate);
    }
  }
  if (partials != nullptr) StorePartial(sums, norm.size, partials);
}

// For rows of any size: a block a row, element by element.
template <typename T>
__global__ void AnyForwardKernel(const Norm norm, const T* x, const T* residual, T* y) {
  __shared__ float scratch[32];
  const int64_t start = norm.At(blockIdx.x);
  float squares = 0.0f;
  for (int col = threadIdx.x; col < norm.size; col += blockDim.x) {
    squares += AsFloat(x[start + col]) * AsFloat(x[start + col]);
  }
  const float inverse = norm.InverseRms(ReduceBlock(squares, scratch, Sum()));
  for (int col = threadIdx.x; col < norm.size; col += blockDim.x) {
    float value[1];
    norm.LoadScale(col, value);
    value[0] *= AsFloat(x[start + col]) * inverse;
    if (residual != nullptr) value[0] += AsFloat(residual[start + col]);
    PutVec<T, 1>(y + start + col, value, false);
  }
}

// A block takes `steps` rows; partials are added to in memory, each by the one thread that owns it.
template <typename T>
__global__ void AnyBackwardKernel(const Norm norm, int steps, const T* x, const T* d_y,
                                  bool accumulate, T* d_x, float* partials) {
  __shared__ float scratch[2][32];
  float* partial = partials == nullptr ? nullptr : partials + int64_t{blockIdx.x} * norm.size;
  const int64_t begin = int64_t{blockIdx.x} * steps;
  for (int64_t row = begin; row < min(norm.rows, begin + steps); ++row) {
    const int64_t start = norm.At(row);
    float squares = 0.0f;
    float dot = 0.0f;
    for (int col = threadIdx.x; col < norm.size; col += blockDim.x) {
      float scale[1];
      norm.LoadScale(col, scale);
      const float v = AsFloat(x[start + col]);
      squares += v * v;
      dot += AsFloat(d_y[start + col]) * scale[0] * v;
    }
    __syncthreads();  // the scratch areas of the row before have been read
    const float inverse = norm.InverseRms(ReduceBlock(squares, scratch[0], Sum()));
    const float along =
        ReduceBlock(dot, scratch[1], Sum()) * inverse * inverse / static_cast<float>(norm.size);
    for (int col = threadIdx.x; col < norm.size; col += blockDim.x) {
      float scale[1];
      norm.LoadScale(col, scale);
      const float v = AsFloat(x[start + col]);
      const float d = AsFloat(d_y[start + col]);
      if (partial != nullptr) {
        partial[col] = (row == begin ? 0.0f : partial[col]) + d * (v * inverse);
      }
      const float result[1] = {inverse * (d * scale[0] - v * along)};
      if (d_x != nullptr) PutVec<T, 1>(d_x + start + col, result, accumulate);
    }
  }
}

Norm NormOf(const NormShape& shape, const TensorView& scale) {
  Count32(shape.rows());
  return {shape.rows(),
          Count32(shape.groups),
          static_cast<int>(shape.size),
          shape.token_stride,
          shape.eps,
          shape.scale_offset,
          scale.data,
          scale.dtype == DType::kBF16};
}

// Calls launch(vectors, block), integral constants.
template <typename Launch>
void WithShares(const Shares& shares, const Launch& launch) {
  const auto with = [&](auto few, auto many, auto block) {
    if (shares.vectors == decltype(few)::value) return launch(few, block);
    launch(many, block);
  };
  using One = std::integral_constant<int, 1>;
  using Two = std::integral_constant<int, 2>;
  using Four = std::integral_constant<int, 4>;
  if (shares.block()) return with(Two(), Four(), std::true_type());
  with(One(), Two(), std::false_type());
}

// Whether this call takes the kernels that hold rows in registers. The addresses are those of the
// arena or lie whole heads further, so the size alone decides in practice.
bool TakesWide(const NormShape& shape, std::initializer_list<const void*> addresses) {
  const int64_t width = 16 / SizeOf(shape.dtype);
  return IsWide(shape.size, shape.dtype) && shape.token_stride % width == 0 &&
         std::all_of(addresses.begin(), addresses.end(), IsAligned);
}

}  // namespace

void NormForward(CudaLaneContext& context, const NormShape& shape, const void* x,
                 const TensorView& scale, const void* residual, void* y) {
  if (shape.rows() == 0) return;
  const Norm norm = NormOf(shape, scale);
  const Shares shares = SharesFor(shape.size, shape.dtype);
  WithElementType(shape.dtype, [&](auto element) {
    using T = decltype(element);
    const auto* from = static_cast<const T*>(x);
    const auto* added = static_cast<const T*>(residual);
    auto* to = static_cast<T*>(y);
    if (!TakesWide(shape, {x, scale.data, residual, y})) {
      AnyForwardKernel<T>
          <<<Blocks(norm.rows, 1), 256, 0, context.stream()>>>(norm, from, added, to);
      return;
    }
    WithShares(shares, [&](auto vectors, auto block) {
      ForwardKernel<T, decltype(vectors)::value, decltype(block)::value>
          <<<Blocks(norm.rows, shares.rows), dim3(shares.threads, shares.rows), 0,
             context.stream()>>>(norm, from, added, to);
    });
  });
  CheckLaunch("rms_norm");
}

int64_t NormPartialRows(int64_t rows, int64_t size, DType dtype) {
  return CeilDiv(rows, SharesFor(size, dtype).rows_a_block());
}

void NormBackward(CudaLaneContext& context, const NormShape& shape, const void* x,
                  const TensorView& scale, const void* d_y, bool accumulate, void* d_x,
                  float* partials) {
  if (shape.rows() == 0) return;
  const Norm norm = NormOf(shape, scale);
  const Shares shares = SharesFor(shape.size, shape.dtype);
  const unsigned blocks = Blocks(norm.rows, shares.rows_a_block());
  WithElementType(shape.dtype, [&](auto element) {
    using T = decltype(element);
    const auto* from = static_cast<const T*>(x);
    const auto* gradient = static_cast<const T*>(d_y);
    auto* to = static_cast<T*>(d_x);
    if (!TakesWide(shape, {x, scale.data, d_y, d_x})) {
      AnyBackwardKernel<T><<<blocks, 256, 0, context.stream()>>>(
          norm, static_cast<int>(shares.rows_a_block()), from, gradient, accumulate, to, partials);
      return;
    }
    const size_t shared = partials == nullptr ? 0 : shares.rows * shape.size * sizeof(float);
    WithShares(shares, [&](auto vectors, auto block) {
      const auto kernel = BackwardKernel<T, decltype(vectors)::value, decltype(block)::value>;
      if (shared > 48 * 1024) {
        Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(shared)),
              "rms_norm backward");
      }
      kernel<<<blocks, dim3(shares.threads, shares.rows), shared, context.stream()>>>(
          norm, shares.steps, from, gradient, accumulate, to, partials);
    });
  });
  CheckLaunch("rms_norm backward");
}

}  // namespace lazytrain::cuda
