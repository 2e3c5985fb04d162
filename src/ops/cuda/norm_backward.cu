#include "ops/cuda/async_copy.cuh"
#include "ops/cuda/norm_parts.cuh"
#include "ops/cuda/norm_rows.h"
#include "ops/cuda/reduce.cuh"

namespace lazytrain::cuda {
namespace {

// Blocks of a multiprocessor that run at once. Where rows are many, a block takes so many of them,
// one behind the other, that all blocks start together and none is left for a second round.
constexpr int kNarrowBlocks = 2;       // of kNarrowThreads
constexpr int kAnyBlocks = 8;          // of rows of any size
constexpr int kMultiprocessors = 132;  // of an H100 or H200; others end unevenly

Shares SharesFor(int64_t size, DType dtype) {
  if (!IsWide(size, dtype)) return {kNarrowThreads, 1, 0};
  const int64_t vectors = size / (16 / SizeOf(dtype));
  for (const int threads : {4, 8, 16, 32}) {
    if (vectors <= 2 * threads) return {threads, kNarrowThreads / threads, 2};
  }
  const int held = vectors <= 2 * kMaxThreads ? 2 : 4;
  const int threads = std::max(64, static_cast<int>(RoundUp(CeilDiv(vectors, held), 32)));
  return {threads, kMaxThreads / threads, held};
}

int64_t BlocksAtOnce(const Shares& shares) {
  if (shares.vectors == 0) return kMultiprocessors * kAnyBlocks;
  return kMultiprocessors * (shares.warps() ? 1 : kNarrowBlocks);
}

// Adds up what the rows of a block (threadIdx.y) have for d_scale, in their order.
template <int kVectors, int N>
__device__ void StorePartial(const float (&sums)[kVectors][N], int size, float* shared,
                             float* partial) {
  const int threads = static_cast<int>(blockDim.x);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int col = static_cast<int>(threadIdx.x + i * blockDim.x) * N;
    if (col >= size) continue;
    Vec<float, N> own;
#pragma unroll
    for (int k = 0; k < N; ++k) own.at[k] = sums[i][k];
    own.Store(shared + threadIdx.y * size + col);
  }
  __syncthreads();
  const int first = static_cast<int>(threadIdx.x + threadIdx.y * blockDim.x);
  for (int col = first; col < size; col += threads * static_cast<int>(blockDim.y)) {
    float sum = shared[col];
    for (int y = 1; y < static_cast<int>(blockDim.y); ++y) sum += shared[y * size + col];
    partial[col] = sum;
  }
}

// Waits for the threads of this thread's row: whole warps.
__device__ inline void SyncRow() {
  asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.y + 1), "r"(blockDim.x) : "memory");
}

// Sums of two values of every thread of a row. `area` has a place for every warp of the row.
template <bool kWarps>
__device__ inline float2 ReduceBoth(float2 both, float2* area) {
  both.x = ReduceLanes(both.x, kWarps ? 32 : static_cast<int>(blockDim.x), Sum());
  both.y = ReduceLanes(both.y, kWarps ? 32 : static_cast<int>(blockDim.x), Sum());
  if constexpr (kWarps) {
    if (threadIdx.x % 32 == 0) area[threadIdx.x / 32] = both;
    SyncRow();
    both = area[0];
    for (unsigned w = 1; w < blockDim.x / 32; ++w) {
      both.x += area[w].x;
      both.y += area[w].y;
    }
  }
  return both;
}

// Where the rows that a thread works on begin, one behind the other, without a division for each.
class RowCursor {
 public:
  // From `row` on, every blockDim.y-th, at most `count`.
  __device__ RowCursor(const Norm& norm, const Part& part, int64_t row, int count)
      : groups_(part.groups),
        group_(static_cast<uint32_t>(row) % part.groups),
        group_step_(blockDim.y % part.groups),
        step_(int64_t{blockDim.y / part.groups} * norm.token_stride +
              int64_t{blockDim.y % part.groups} * norm.size),
        wrap_(norm.token_stride - int64_t{part.groups} * norm.size),
        left_(row < part.rows
                  ? static_cast<int>(min(int64_t{count}, (part.rows - row - 1) / blockDim.y + 1))
                  : 0),
        start_(norm.At(part, row)) {}

  __device__ bool there() const { return left_ > 0; }
  __device__ int64_t start() const { return start_; }
  __device__ void Next() {
    --left_;
    start_ += step_;
    group_ += group_step_;
    if (group_ < groups_) return;
    group_ -= groups_;
    start_ += wrap_;
  }

 private:
  uint32_t groups_;
  uint32_t group_;
  uint32_t group_step_;
  int64_t step_;
  int64_t wrap_;
  int left_;
  int64_t start_;
};

// Of a row: x, the gradient of y, and what d_x holds.
constexpr int kOperands = 3;

// The rows that a thread has asked for and not yet used: a ring of kStages rows' shares of all
// operands. A thread sees its own copies only, so no other has to wait for them.
template <int kVectors, int kStages>
class RowsAhead {
 public:
  __device__ explicit RowsAhead(uint4* ring)
      : threads_(static_cast<int>(blockDim.x * blockDim.y)),
        own_(ring + threadIdx.x + threadIdx.y * blockDim.x) {}

  __device__ uint4* At(int stage, int operand, int i) const {
    return own_ + ((stage * kOperands + operand) * kVectors + i) * threads_;
  }

 private:
  int threads_;
  uint4* own_;
};

constexpr int64_t RingBytes(const Shares& shares, int stages) {
  return int64_t{stages} * kOperands * shares.vectors * 16 * shares.threads * shares.rows;
}

// A block takes `steps` rows for each of its threadIdx.y, one behind the other.
template <typename T, int kVectors, bool kWarps, int kStages>
__global__ void __launch_bounds__(kWarps ? kMaxThreads : kNarrowThreads, kWarps ? 1 : kNarrowBlocks)
    BackwardKernel(const __grid_constant__ Norm norm, int steps, const T* x, const T* d_y,
                   bool accumulate, T* d_x, float* partials) {
  constexpr int N = kWide<T>;
  using Piece = Vec<T, N>;
  extern __shared__ uint4 dynamic[];
  __shared__ float2 scratch[2][kMaxThreads / 32];
  const RowsAhead<kVectors, kStages> ahead(dynamic);
  const Part& part = norm.parts[norm.PartOfBlock()];
  const bool plain = part.scale == nullptr;
  const unsigned area = kWarps ? threadIdx.y * (blockDim.x / 32) : 0;
  const int64_t begin = int64_t{blockIdx.x - part.first_block} * blockDim.y * steps + threadIdx.y;
  RowCursor current(norm, part, begin, steps);
  RowCursor next = current;  // to be fetched
  const auto fetch = [&](int stage) {
    const int64_t start = next.start();
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int col = static_cast<int>(threadIdx.x + i * blockDim.x) * N;
      if (!next.there() || col >= norm.size) continue;
      if (!plain) StartCopy(SharedAddress(ahead.At(stage, 0, i)), x + start + col);
      StartCopy(SharedAddress(ahead.At(stage, 1, i)), d_y + start + col);
      if (accumulate) StartCopy(SharedAddress(ahead.At(stage, 2, i)), d_x + start + col);
    }
    EndCopyGroup();  // an empty one too: groups are counted
    next.Next();
  };
  for (int step = 0; step < kStages; ++step) fetch(step);
  float scale[kVectors][N];
  float sums[kVectors][N] = {};
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int col = static_cast<int>(threadIdx.x + i * blockDim.x) * N;
    if (col < norm.size && !plain) norm.LoadScale(part, col, scale[i]);
  }
  for (int step = 0; step < steps; ++step) {
    const bool there = current.there();
    if (kWarps && !there) break;  // all threads of the row agree
    const int64_t start = current.start();
    AwaitCopyGroups<kStages - 1>();
    const int stage = static_cast<int>(static_cast<unsigned>(step) % kStages);
    Piece values[kVectors];
    Piece gradients[kVectors];
    float2 both = {0.0f, 0.0f};  // squares of x; g times x
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int col = static_cast<int>(threadIdx.x + i * blockDim.x) * N;
      if (!there || col >= norm.size) continue;
      gradients[i] = *reinterpret_cast<const Piece*>(ahead.At(stage, 1, i));
      if (plain) continue;
      values[i] = *reinterpret_cast<const Piece*>(ahead.At(stage, 0, i));
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float v = AsFloat(values[i].at[k]);
        both.x += v * v;
        both.y += AsFloat(gradients[i].at[k]) * scale[i][k] * v;
      }
    }
    both = ReduceBoth<kWarps>(both, scratch[step % 2] + area);  // by turns: one barrier is enough
    const float inverse = norm.InverseRms(both.x);
    const float along = both.y * inverse * inverse * norm.inverse_size;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const int col = static_cast<int>(threadIdx.x + i * blockDim.x) * N;
      if (!there || col >= norm.size) continue;
      float result[N];
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float d = AsFloat(gradients[i].at[k]);
        if (plain) {
          result[k] = d;
          continue;
        }
        const float v = AsFloat(values[i].at[k]);
        sums[i][k] += d * (v * inverse);
        result[k] = inverse * (d * scale[i][k] - v * along);
      }
      if (accumulate) {
        const Piece before = *reinterpret_cast<const Piece*>(ahead.At(stage, 2, i));
#pragma unroll
        for (int k = 0; k < N; ++k) result[k] += AsFloat(before.at[k]);
      }
      if (d_x != nullptr) PutVec<T, N>(d_x + start + col, result, false);
    }
    fetch(stage);
    current.Next();
  }
  if (partials == nullptr || plain) return;
  AwaitCopyGroups<0>();
  __syncthreads();  // the sums lie where the rows have been
  StorePartial(sums, norm.size, reinterpret_cast<float*>(dynamic),
               partials + int64_t{blockIdx.x} * norm.size);
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

// Blocks of the backward, each of so many rows of one part.
int64_t BlocksOf(const NormShape& shape, int64_t rows_a_block) {
  int64_t blocks = 0;
  for (const int64_t groups : PartSizes(shape).groups) {
    blocks += CeilDiv(shape.tokens * groups, rows_a_block);
  }
  return blocks;
}

int64_t RowsABlock(const NormShape& shape) {
  const Shares shares = SharesFor(shape.size, shape.dtype);
  const int64_t most = BlocksAtOnce(shares);
  int64_t rows = RoundUp(CeilDiv(shape.rows(), most), shares.rows);
  while (BlocksOf(shape, rows) > most) rows += shares.rows;
  return rows;
}

// Rows ahead of the one in work that shared memory holds; 0: too few to be worth it.
int StagesFor(const Shares& shares, int64_t shared_a_block) {
  for (const int stages : {4, 2}) {
    if (stages * shares.vectors <= 8 && RingBytes(shares, stages) <= shared_a_block) return stages;
  }
  return 0;
}

// Calls launch(vectors, warps, stages), integral constants.
template <typename Launch>
void WithShares(const Shares& shares, int stages, const Launch& launch) {
  if (!shares.warps()) return launch(Constant<2>(), std::false_type(), Constant<4>());
  if (shares.vectors == 4) return launch(Constant<4>(), std::true_type(), Constant<2>());
  if (stages == 2) return launch(Constant<2>(), std::true_type(), Constant<2>());
  launch(Constant<2>(), std::true_type(), Constant<4>());
}

}  // namespace

int64_t NormPartialRows(const NormShape& shape, int which) {
  return CeilDiv(shape.tokens * PartSizes(shape).groups[which], RowsABlock(shape));
}

int64_t MostNormPartialRows(const NormShape& shape) {
  const Shares shares = SharesFor(shape.size, shape.dtype);
  return std::min(BlocksOf(shape, shares.rows), BlocksAtOnce(shares));
}

void NormBackward(CudaLaneContext& context, const NormShape& shape, const void* x,
                  const NormScales& scales, const void* d_y, bool accumulate, void* d_x,
                  float* partials) {
  if (shape.rows() == 0) return;
  const Shares shares = SharesFor(shape.size, shape.dtype);
  const int64_t rows = RowsABlock(shape);
  const auto [norm, blocks] = GridOf(shape, scales, rows);
  const int stages = StagesFor(shares, context.gpu().shared_a_block);
  WithElementType(shape.dtype, [&, &norm = norm, blocks = blocks](auto element) {
    using T = decltype(element);
    const auto* from = static_cast<const T*>(x);
    const auto* gradient = static_cast<const T*>(d_y);
    auto* to = static_cast<T*>(d_x);
    accumulate = accumulate && to != nullptr;
    if (stages == 0 || !TakesWide(shape, scales, {x, d_y, d_x})) {
      AnyBackwardKernel<T><<<blocks, kNarrowThreads, 0, context.stream()>>>(
          norm, static_cast<int>(rows), from, gradient, accumulate, to, partials);
      return;
    }
    const auto shared = static_cast<int>(std::max<int64_t>(
        RingBytes(shares, stages), shares.rows * shape.size * SizeOf(DType::kF32)));
    WithShares(shares, stages, [&](auto vectors, auto warps, auto ahead) {
      const auto kernel = BackwardKernel<T, decltype(vectors)::value, decltype(warps)::value,
                                         decltype(ahead)::value>;
      AllowShared(context, kernel, shared, "rms_norm backward");
      kernel<<<blocks, dim3(shares.threads, shares.rows), shared, context.stream()>>>(
          norm, static_cast<int>(rows / shares.rows), from, gradient, accumulate, to, partials);
    });
  });
  CheckLaunch("rms_norm backward");
}

}  // namespace lazytrain::cuda
