#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/vectors.cuh"
#include "ops/regroup_heads.h"

namespace lazytrain::cuda {
namespace {

constexpr int kThreads = 256;

struct Heads {
  uint32_t q;
  uint32_t kv;
  uint32_t dim;

  // As RegroupHeads::Source.
  __device__ uint32_t Source(uint32_t head) const {
    const uint32_t per_key = q / kv;
    if (head < q) return head / per_key * (per_key + 2) + head % per_key;
    const uint32_t other = head - q;
    return other % kv * (per_key + 2) + per_key + other / kv;
  }
};

// A thread takes N channels of one head of `ordered` (all query heads, then key, then value heads).
// To `ordered` from `grouped`, or back.
template <typename T, int N, bool kBack>
__global__ void RegroupKernel(const T* from, Heads heads, uint32_t count, bool accumulate, T* to) {
  const uint32_t vector = blockIdx.x * kThreads + threadIdx.x;
  if (vector >= count) return;
  const uint32_t per_head = heads.dim / N;
  const uint32_t all = heads.q + 2 * heads.kv;
  const uint32_t head_row = vector / per_head;
  const uint32_t row = head_row / all;
  const int64_t first = int64_t{row} * all;
  const int64_t ordered = int64_t{vector} * N;
  const int64_t grouped = (first + heads.Source(head_row - row * all)) * heads.dim +
                          int64_t{vector - head_row * per_head} * N;
  const auto source = Vec<T, N>::Load(from + (kBack ? ordered : grouped));
  float values[N];
#pragma unroll
  for (int k = 0; k < N; ++k) values[k] = AsFloat(source.at[k]);
  PutVec<T, N>(to + (kBack ? grouped : ordered), values, accumulate);
}

template <bool kBack>
void Regroup(const RegroupHeads& op, const TensorView& from, bool accumulate, const TensorView& to,
             LaneContext& context) {
  if (from.rows == 0) return;
  WithElementType(from.dtype, [&](auto element) {
    using T = decltype(element);
    WithWidth<T>(op.head_dim, IsAligned(from.data) && IsAligned(to.data), [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      const uint32_t count = Count32(from.size() / kWidth);
      const Heads heads{Count32(op.q_heads), Count32(op.kv_heads), Count32(op.head_dim)};
      RegroupKernel<T, kWidth, kBack>
          <<<Blocks(count, kThreads), kThreads, 0, Cuda(context).stream()>>>(
              from.as<const T>(), heads, count, accumulate, to.as<T>());
    });
  });
  CheckLaunch("regroup_heads");
}

}  // namespace

void RegroupHeadsForward(const Op& base, const OpArgs& args, LaneContext& context) {
  Regroup<false>(static_cast<const RegroupHeads&>(base), args.inputs[0], false, args.outputs[0],
                 context);
}

void RegroupHeadsBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  if (!args.d_inputs[0].present()) return;
  Regroup<true>(static_cast<const RegroupHeads&>(base), args.d_outputs[0],
                args.accumulate_inputs[0], args.d_inputs[0], context);
}

}  // namespace lazytrain::cuda
