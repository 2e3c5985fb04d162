#include <algorithm>
#include <initializer_list>

#include "ops/cuda/launch.h"
#include "ops/cuda/norm_rows.h"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda/vectors.cuh"
#include "ops/op.h"

namespace lazytrain::cuda {
namespace {

constexpr int kMaxThreads = 512;  // of a block

// How a kernel's threads share rows: `threads` (blockDim.x) a row, `rows` (blockDim.y) at a time;
// in backward a block takes `steps` times as many. Rows of up to 32 threads are added up by
// shuffles within a warp, longer ones by the whole block.
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

// What is done once a row every thread of it does, hence few threads a row, as far as registers
// still hold several blocks; in backward they hold twice as much and sums.
Shares SharesFor(int64_t size, DType dtype, Direction direction) {
  if (!IsWide(size, dtype)) return {256, 1, 0, 16};
  const int64_t vectors = size / (16 / SizeOf(dtype));
  if (vectors <= 16) return {8, 32, vectors <= 8 ? 1 : 2, 8};
  if (vectors <= 64) return {32, 8, vectors <= 32 ? 1 : 2, 16};
  const bool many = direction == Direction::kForward ? vectors > 128 : vectors > 2 * kMaxThreads;
  const int held = many ? 4 : 2;
  return {static_cast<int>(RoundUp(CeilDiv(vectors, held), 32)), 1, held, 16};
}

// Neighbouring stretches that are treated alike. A block takes rows of one part only.
struct Part {
  int64_t rows = 0;
  uint32_t groups = 1;
  int64_t offset = 0;           // elements from the first stretch of a token
  const void* scale = nullptr;  // null: rows are copied
  unsigned first_block = 0;
};

struct Norm {
  Part parts[3];
  int size;
  int64_t token_stride;
  float eps;
  float inverse_size;
  float scale_offset;
  bool scales_are_bf16;

  __device__ int PartOfBlock() const {
    return blockIdx.x >= parts[2].first_block ? 2 : blockIdx.x >= parts[1].first_block ? 1 : 0;
  }
  // Where a part's row begins; -1: there is no such row.
  __device__ int64_t At(const Part& part, int64_t row) const {
    if (row >= part.rows) return -1;
    if (part.groups == 1) return row * token_stride + part.offset;
    const auto r = static_cast<uint32_t>(row);
    const uint32_t token = r / part.groups;
    return int64_t{token} * token_stride + part.offset + int64_t{r - token * part.groups} * size;
  }
  template <int N>
  __device__ void LoadScale(const Part& part, int col, float (&values)[N]) const {
    if (scales_are_bf16) {
      const auto v =
          Vec<__nv_bfloat16, N>::Load(static_cast<const __nv_bfloat16*>(part.scale) + col);
#pragma unroll
      for (int k = 0; k < N; ++k) values[k] = AsFloat(v.at[k]) + scale_offset;
    } else {
      const auto v = Vec<float, N>::Load(static_cast<const float*>(part.scale) + col);
#pragma unroll
      for (int k = 0; k < N; ++k) values[k] = v.at[k] + scale_offset;
    }
  }
  __device__ float InverseRms(float squares) const {
    return __frsqrt_rn(squares * inverse_size + eps);
  }
};

template <bool kBlock>
__device__ inline float ReduceRow(float value, float* scratch) {
  if constexpr (kBlock) return ReduceBlock(value, scratch, Sum());
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

template <typename T, int kVectors, bool kBlock>
__global__ void __launch_bounds__(kBlock ? kMaxThreads : 256)
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
  const float inverse = norm.InverseRms(ReduceRow<kBlock>(squares, scratch));
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

// Adds up what the rows of a block (threadIdx.y) have for d_scale, in their order.
template <int kVectors, int N>
__device__ void StorePartial(const float (&sums)[kVectors][N], int size, float* partial) {
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
    partial[col] = sum;
  }
}

// Sums of two values of every thread of a row.
template <bool kBlock>
__device__ inline float2 ReduceBoth(float2 both, float2* area) {
  both.x = ReduceLanes(both.x, kBlock ? 32 : static_cast<int>(blockDim.x), Sum());
  both.y = ReduceLanes(both.y, kBlock ? 32 : static_cast<int>(blockDim.x), Sum());
  if constexpr (kBlock) {
    if (threadIdx.x % 32 == 0) area[threadIdx.x / 32] = both;
    __syncthreads();
    both = area[0];
    for (unsigned w = 1; w < blockDim.x / 32; ++w) {
      both.x += area[w].x;
      both.y += area[w].y;
    }
  }
  return both;
}

template <typename T, int kVectors, bool kBlock>
__global__ void __launch_bounds__(kBlock ? kMaxThreads : 256)
    BackwardKernel(const __grid_constant__ Norm norm, int steps, const T* x, const T* d_y,
                   bool accumulate, T* d_x, float* partials) {
  constexpr int N = kWide<T>;
  // The next row is on its way while this one is added up, where registers hold both.
  constexpr bool kAhead = kVectors < 4;
  __shared__ float2 scratch[2][32];
  const Part& part = norm.parts[norm.PartOfBlock()];
  float scale[kVectors][N];
  float sums[kVectors][N] = {};
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int col = static_cast<int>(threadIdx.x + i * blockDim.x) * N;
    if (col < norm.size && part.scale != nullptr) norm.LoadScale(part, col, scale[i]);
  }
  const int64_t begin = int64_t{blockIdx.x - part.first_block} * blockDim.y * steps + threadIdx.y;
  Held<T, kVectors> values;
  Held<T, kVectors> gradients;
  int64_t start = norm.At(part, begin);
  values.Load(norm.size, start, x);
  gradients.Load(norm.size, start, d_y);
  for (int step = 0; step < steps; ++step) {
    if (kBlock && start < 0) break;  // the whole block agrees
    const int64_t next =
        step + 1 < steps ? norm.At(part, begin + int64_t{step + 1} * blockDim.y) : -1;
    Held<T, kVectors> next_values;
    Held<T, kVectors> next_gradients;
    if constexpr (kAhead) {
      next_values.Load(norm.size, next, x);
      next_gradients.Load(norm.size, next, d_y);
    }
    float2 both = {0.0f, 0.0f};  // squares of x; g times x
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int col = static_cast<int>(threadIdx.x + i * blockDim.x) * N;
      if (start < 0 || col >= norm.size) continue;
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float v = AsFloat(values.at[i].at[k]);
        both.x += v * v;
        both.y += AsFloat(gradients.at[i].at[k]) * scale[i][k] * v;
      }
    }
    both = ReduceBoth<kBlock>(both, scratch[step % 2]);  // by turns: one barrier a row is enough
    const float inverse = norm.InverseRms(both.x);
    const float along = both.y * inverse * inverse * norm.inverse_size;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int col = static_cast<int>(threadIdx.x + i * blockDim.x) * N;
      if (start < 0 || col >= norm.size) continue;
      float result[N];
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float v = AsFloat(values.at[i].at[k]);
        const float d = AsFloat(gradients.at[i].at[k]);
        sums[i][k] += d * (v * inverse);
        result[k] = part.scale == nullptr ? d : inverse * (d * scale[i][k] - v * along);
      }
      if (d_x != nullptr) PutVec<T, N>(d_x + start + col, result, accumulate);
    }
    start = next;
    if constexpr (kAhead) {
      values = next_values;
      gradients = next_gradients;
    } else {
      values.Load(norm.size, start, x);
      gradients.Load(norm.size, start, d_y);
    }
  }
  if (partials == nullptr || part.scale == nullptr) return;
  StorePartial(sums, norm.size, partials + int64_t{blockIdx.x} * norm.size);
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

// A block takes `steps` rows; partials are added to in memory, each by the one thread that owns it.
template <typename T>
__global__ void AnyBackwardKernel(const __grid_constant__ Norm norm, int steps, const T* x,
                                  const T* d_y, bool accumulate, T* d_x, float* partials) {
  __shared__ float scratch[2][32];
  const Part& part = norm.parts[norm.PartOfBlock()];
  float* partial = partials == nullptr ? nullptr : partials + int64_t{blockIdx.x} * norm.size;
  const int64_t begin = int64_t{blockIdx.x - part.first_block} * steps;
  for (int64_t row = begin; row < min(part.rows, begin + steps); ++row) {
    const int64_t start = norm.At(part, row);
    if (part.scale == nullptr) {
      for (int col = threadIdx.x; d_x != nullptr && col < norm.size; col += blockDim.x) {
        const float copied[1] = {AsFloat(d_y[start + col])};
        PutVec<T, 1>(d_x + start + col, copied, accumulate);
      }
      continue;
    }
    float squares = 0.0f;
    float dot = 0.0f;
    for (int col = threadIdx.x; col < norm.size; col += blockDim.x) {
      float scale[1];
      norm.LoadScale(part, col, scale);
      const float v = AsFloat(x[start + col]);
      squares += v * v;
      dot += AsFloat(d_y[start + col]) * scale[0] * v;
    }
    __syncthreads();  // the scratch areas of the row before have been read
    const float inverse = norm.InverseRms(ReduceBlock(squares, scratch[0], Sum()));
    const float along = ReduceBlock(dot, scratch[1], Sum()) * inverse * inverse * norm.inverse_size;
    for (int col = threadIdx.x; col < norm.size; col += blockDim.x) {
      float scale[1];
      norm.LoadScale(part, col, scale);
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

// Stretches of a token in each part.
struct PartSizes {
  int64_t groups[3];

  explicit PartSizes(const NormShape& shape)
      : groups{shape.second_from, shape.plain_from - shape.second_from,
               shape.groups - shape.plain_from} {}
};

// A norm, and the blocks that it takes.
struct Grid {
  Norm norm;
  unsigned blocks;
};

Grid GridOf(const NormShape& shape, const NormScales& scales, int64_t rows_a_block) {
  Count32(shape.rows());
  Grid grid = {};
  Norm& norm = grid.norm;
  norm.size = static_cast<int>(shape.size);
  norm.token_stride = shape.token_stride;
  norm.eps = shape.eps;
  norm.inverse_size = 1.0f / static_cast<float>(shape.size);
  norm.scale_offset = shape.scale_offset;
  norm.scales_are_bf16 = scales.first.dtype == DType::kBF16;
  const PartSizes sizes(shape);
  const void* of[3] = {scales.first.data, scales.second.data, nullptr};
  int64_t offset = 0;
  for (int p = 0; p < 3; ++p) {
    const int64_t groups = sizes.groups[p];
    norm.parts[p] = {shape.tokens * groups, static_cast<uint32_t>(std::max<int64_t>(groups, 1)),
                     offset, of[p], grid.blocks};
    offset += groups * shape.size;
    grid.blocks += Blocks(norm.parts[p].rows, rows_a_block);
  }
  return grid;
}

template <int kValue>
using Constant = std::integral_constant<int, kValue>;

// Calls launch(vectors, block), integral constants.
template <typename Launch>
void WithShares(const Shares& shares, const Launch& launch) {
  if (shares.block() && shares.vectors == 2) return launch(Constant<2>(), std::true_type());
  if (shares.block()) return launch(Constant<4>(), std::true_type());
  if (shares.vectors == 2) return launch(Constant<2>(), std::false_type());
  launch(Constant<1>(), std::false_type());
}

// Whether this call takes the kernels that hold rows in registers. The addresses are those of the
// arena or lie whole heads further, so the size alone decides in practice.
bool TakesWide(const NormShape& shape, const NormScales& scales,
               std::initializer_list<const void*> addresses) {
  const int64_t width = 16 / SizeOf(shape.dtype);
  return IsWide(shape.size, shape.dtype) && shape.token_stride % width == 0 &&
         IsAligned(scales.first.data) && IsAligned(scales.second.data) &&
         std::all_of(addresses.begin(), addresses.end(), IsAligned);
}

}  // namespace

void NormForward(CudaLaneContext& context, const NormShape& shape, const void* x,
                 const NormScales& scales, const void* residual, void* y) {
  if (shape.rows() == 0) return;
  const Shares shares = SharesFor(shape.size, shape.dtype, Direction::kForward);
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
    WithShares(shares, [&](auto vectors, auto block) {
      ForwardKernel<T, decltype(vectors)::value, decltype(block)::value>
          <<<blocks, dim3(shares.threads, shares.rows), 0, context.stream()>>>(norm, from, added,
                                                                               to);
    });
  });
  CheckLaunch("rms_norm");
}

int64_t NormPartialRows(const NormShape& shape, int which) {
  return CeilDiv(shape.tokens * PartSizes(shape).groups[which],
                 SharesFor(shape.size, shape.dtype, Direction::kBackward).rows_a_block());
}

void NormBackward(CudaLaneContext& context, const NormShape& shape, const void* x,
                  const NormScales& scales, const void* d_y, bool accumulate, void* d_x,
                  float* partials) {
  if (shape.rows() == 0) return;
  const Shares shares = SharesFor(shape.size, shape.dtype, Direction::kBackward);
  const auto [norm, blocks] = GridOf(shape, scales, shares.rows_a_block());
  WithElementType(shape.dtype, [&, &norm = norm, blocks = blocks](auto element) {
    using T = decltype(element);
    const auto* from = static_cast<const T*>(x);
    const auto* gradient = static_cast<const T*>(d_y);
    auto* to = static_cast<T*>(d_x);
    if (!TakesWide(shape, scales, {x, d_y, d_x})) {
      AnyBackwardKernel<T><<<blocks, 256, 0, context.stream()>>>(
          norm, static_cast<int>(shares.rows_a_block()), from, gradient, accumulate, to, partials);
      return;
    }
    const size_t shared = partials == nullptr ? 0 : shares.rows * shape.size * sizeof(float);
    WithShares(shares, [&](auto vectors, auto block) {
      const auto kernel = BackwardKernel<T, decltype(vectors)::value, decltype(block)::value>;
      if (shared > 48 * 1024) {
        AllowShared(context, kernel, static_cast<int>(shared), "rms_norm backward");
      }
      kernel<<<blocks, dim3(shares.threads, shares.rows), shared, context.stream()>>>(
          norm, shares.steps, from, gradient, accumulate, to, partials);
    });
  });
  CheckLaunch("rms_norm backward");
}

}  // namespace lazytrain::cuda
