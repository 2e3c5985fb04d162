#include "ops/cuda/device_faults.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/rows.h"
#include "ops/cuda/vectors.cuh"
#include "ops/embedding.h"

namespace lazytrain::cuda {
namespace {

constexpr int kThreads = 256;

__device__ inline bool IsToken(int32_t id, int64_t vocab_size, DeviceFault* fault) {
  if (id >= 0 && id < vocab_size) return true;
  Report(Fault::kTokenOutsideVocabulary, id, vocab_size, fault);
  return false;
}

// A thread takes N neighbouring channels of one token.
template <typename T, typename X, int N>
__global__ void ForwardKernel(const int32_t* ids, const T* table, uint32_t count, uint32_t hidden,
                              int64_t vocab_size, DeviceFault* fault, X* x) {
  const uint32_t vector = blockIdx.x * kThreads + threadIdx.x;
  if (vector >= count) return;
  const uint32_t row = vector / (hidden / N);
  const uint32_t col = (vector - row * (hidden / N)) * N;
  const int32_t id = ids[row];
  if (!IsToken(id, vocab_size, fault)) return;
  const auto source = Vec<T, N>::Load(table + int64_t{id} * hidden + col);
  float values[N];
#pragma unroll
  for (int k = 0; k < N; ++k) values[k] = AsFloat(source.at[k]);
  PutVec<X, N>(x + int64_t{row} * hidden + col, values, false);
}

// Ids that a thread of the backward looks at at once, and tokens that a block does.
constexpr int kLooked = 8;
template <int kBlock>
inline constexpr int kScanned = kBlock* kLooked;

// Which of the thread's tokens [begin, begin + kLooked) have this id, as bits.
__device__ inline uint32_t FindTokens(const int32_t* ids, int64_t begin, int64_t rows, int32_t id) {
  uint32_t found = 0;
#pragma unroll
  for (int i = 0; i < kLooked; ++i) {
    if (begin + i < rows && ids[begin + i] == id) found |= 1u << i;
  }
  return found;
}

// The block's tokens that were found, in order, into `list`; returns their number. `warp_counts`
// holds kBlock / 32 numbers.
template <int kBlock>
__device__ inline int ListTokens(uint32_t found, int64_t begin, int* warp_counts, int32_t* list) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int own = __popc(found);
  int up_to = own;  // of this lane and those before it
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const int before = __shfl_up_sync(0xffffffffu, up_to, offset);
    if (lane >= offset) up_to += before;
  }
  __syncthreads();  // everybody has read what was listed before
  if (lane == 31) warp_counts[threadIdx.x / 32] = up_to;
  __syncthreads();
  int at = up_to - own;
  int total = 0;
#pragma unroll
  for (int w = 0; w < kBlock / 32; ++w) {
    if (w < static_cast<int>(threadIdx.x) / 32) at += warp_counts[w];
    total += warp_counts[w];
  }
  for (; found != 0; found &= found - 1) {
    list[at++] = static_cast<int32_t>(begin + __ffs(static_cast<int>(found)) - 1);
  }
  __syncthreads();
  return total;
}

// Adds the listed rows in order; several loads are under way at once.
template <typename T, int N>
__device__ inline void AddListed(const T* column, int64_t hidden, const int32_t* list, int count,
                                 float (&sum)[N]) {
  constexpr int kUnderWay = 16;
  for (int first = 0; first < count; first += kUnderWay) {
    // Loads without branches between them, so that none waits for another.
    Vec<T, N> values[kUnderWay];
#pragma unroll
    for (int i = 0; i < kUnderWay; ++i) {
      values[i] = Vec<T, N>::Load(column + int64_t{list[min(first + i, count - 1)]} * hidden);
    }
#pragma unroll
    for (int i = 0; i < kUnderWay; ++i) {
#pragma unroll
      for (int k = 0; k < N; ++k) {
        sum[k] = first + i < count ? sum[k] + AsFloat(values[i].at[k]) : sum[k];
      }
    }
  }
}

// A block a token (x) and a stretch of columns (y). The first token with an id adds up the rows of
// all of them, in token order, so that no two blocks touch one row of the table.
template <typename T, int N, int kBlock>
__global__ void __launch_bounds__(kBlock)
    BackwardKernel(const int32_t* ids, const T* d_x, int64_t rows, int64_t hidden,
                   int64_t vocab_size, DeviceFault* fault, float* d_table) {
  __shared__ int warp_counts[kBlock / 32];
  __shared__ int32_t list[kScanned<kBlock>];
  const int64_t self = blockIdx.x;
  const int32_t id = ids[self];
  if (!IsToken(id, vocab_size, fault)) return;
  const int64_t own = int64_t{threadIdx.x} * kLooked;
  for (int64_t begin = 0; begin < self; begin += kScanned<kBlock>) {
    if (__syncthreads_or(FindTokens(ids, begin + own, self, id) != 0)) return;
  }

  const int64_t col = (int64_t{blockIdx.y} * kBlock + threadIdx.x) * N;
  const bool active = col < hidden;
  float* target = d_table + int64_t{id} * hidden + col;
  float sum[N] = {};
  if (active) {
    const auto before = Vec<float, N>::Load(target);
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] = before.at[k];
  }
  for (int64_t begin = self; begin < rows; begin += kScanned<kBlock>) {
    const uint32_t found = FindTokens(ids, begin + own, rows, id);
    const int count = ListTokens<kBlock>(found, begin + own, warp_counts, list);
    if (active) AddListed<T, N>(d_x + col, hidden, list, count, sum);
  }
  if (active) PutVec<float, N>(target, sum, false);
}

}  // namespace

void EmbeddingForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const Embedding&>(base);
  const TensorView& table = args.weights[0];
  const TensorView& x = args.outputs[0];
  if (x.rows == 0) return;
  WithElementType(table.dtype, [&](auto element) {
    using T = decltype(element);
    WithElementType(x.dtype, [&](auto x_element) {
      using X = decltype(x_element);
      WithWidth<T>(op.hidden, IsAligned(table.data) && IsAligned(x.data), [&](auto width) {
        constexpr int kWidth = decltype(width)::value;
        const uint32_t count = Count32(x.rows * op.hidden / kWidth);
        ForwardKernel<T, X, kWidth>
            <<<Blocks(count, kThreads), kThreads, 0, Cuda(context).stream()>>>(
                args.inputs[0].as<const int32_t>(), table.as<const T>(), count, Count32(op.hidden),
                op.vocab_size, Cuda(context).fault(), x.as<X>());
      });
    });
  });
  CheckLaunch("embedding");
}

void EmbeddingBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const Embedding&>(base);
  const TensorView& d_table = args.d_weights[0];
  if (!d_table.present()) return;
  if (!args.accumulate_weights[0]) Zero(Cuda(context), d_table);
  const TensorView& d_x = args.d_outputs[0];
  if (d_x.rows == 0) return;
  WithElementType(d_x.dtype, [&](auto element) {
    using T = decltype(element);
    WithWidth<T>(op.hidden, IsAligned(d_x.data) && IsAligned(d_table.data), [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      const auto launch = [&](auto threads) {
        constexpr int kBlock = decltype(threads)::value;
        const dim3 grid(Blocks(d_x.rows, 1), Blocks(op.hidden, int64_t{kBlock} * kWidth));
        BackwardKernel<T, kWidth, kBlock><<<grid, kBlock, 0, Cuda(context).stream()>>>(
            args.inputs[0].as<const int32_t>(), d_x.as<const T>(), d_x.rows, op.hidden,
            op.vocab_size, Cuda(context).fault(), d_table.as<float>());
      };
      if (op.hidden <= 128 * kWidth) {
        launch(std::integral_constant<int, 128>());
      } else {
        launch(std::integral_constant<int, 512>());
      }
    });
  });
  CheckLaunch("embedding backward");
}

}  // namespace lazytrain::cuda
