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

// The tokens of [begin, begin + kThreads) that have this id, as bits; every thread gets them all.
__device__ inline void FindTokens(const int32_t* ids, int64_t begin, int64_t rows, int32_t id,
                                  uint32_t (&found)[kThreads / 32]) {
  const int64_t row = begin + threadIdx.x;
  const uint32_t bits = __ballot_sync(0xffffffffu, row < rows && ids[row] == id);
  __syncthreads();  // everybody has read what was found before
  if (threadIdx.x % 32 == 0) found[threadIdx.x / 32] = bits;
  __syncthreads();
}

// Adds rows `first` + i, for every bit i that is set, in order; several loads are under way at
// once.
template <typename T, int N>
__device__ inline void AddFound(const T* column, int64_t hidden, int64_t first, uint32_t bits,
                                float (&sum)[N]) {
  constexpr int kUnderWay = 8;
  while (bits != 0) {
    // Loads without branches between them, so that none waits for another.
    bool is_there[kUnderWay];
    Vec<T, N> values[kUnderWay];
#pragma unroll
    for (int i = 0; i < kUnderWay; ++i) {
      is_there[i] = bits != 0;
      const int64_t row = first + (is_there[i] ? __ffs(static_cast<int>(bits)) - 1 : 0);
      values[i] = Vec<T, N>::Load(column + row * hidden);
      bits &= bits - 1;
    }
#pragma unroll
    for (int i = 0; i < kUnderWay; ++i) {
#pragma unroll
      for (int k = 0; k < N; ++k) sum[k] = is_there[i] ? sum[k] + AsFloat(values[i].at[k]) : sum[k];
    }
  }
}

// A block a token (x) and a stretch of columns (y). The first token with an id adds up the rows of
// all of them, in token order, so that no two blocks touch one row of the table.
template <typename T, int N>
__global__ void BackwardKernel(const int32_t* ids, const T* d_x, int64_t rows, int64_t hidden,
                               int64_t vocab_size, DeviceFault* fault, float* d_table) {
  __shared__ uint32_t found[kThreads / 32];
  const int64_t self = blockIdx.x;
  const int32_t id = ids[self];
  if (!IsToken(id, vocab_size, fault)) return;
  int earlier = 0;
  for (int64_t row = threadIdx.x; row < self; row += kThreads) earlier |= ids[row] == id;
  if (__syncthreads_or(earlier)) return;

  const int64_t col = (int64_t{blockIdx.y} * kThreads + threadIdx.x) * N;
  const bool active = col < hidden;
  float* target = d_table + int64_t{id} * hidden + col;
  float sum[N] = {};
  if (active) {
    const auto before = Vec<float, N>::Load(target);
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] = before.at[k];
  }
  for (int64_t begin = self / kThreads * kThreads; begin < rows; begin += kThreads) {
    FindTokens(ids, begin, rows, id, found);
    for (int word = 0; word < kThreads / 32; ++word) {
      if (active) AddFound<T, N>(d_x + col, hidden, begin + word * 32, found[word], sum);
    }
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
      const dim3 grid(Blocks(d_x.rows, 1), Blocks(op.hidden, int64_t{kThreads} * kWidth));
      BackwardKernel<T, kWidth><<<grid, kThreads, 0, Cuda(context).stream()>>>(
          args.inputs[0].as<const int32_t>(), d_x.as<const T>(), d_x.rows, op.hidden, op.vocab_size,
          Cuda(context).fault(), d_table.as<float>());
    });
  });
  CheckLaunch("embedding backward");
}

}  // namespace lazytrain::cuda
