#include "ops/attention.h"
#include "ops/cuda/attention_kernels.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda/vectors.cuh"

namespace lazytrain::cuda {
namespace {

void CheckHeadDim(const Attention& op) {
  if (op.head_dim > kMaxHeadDim) RefuseSize("attention with head_dim", op.head_dim, kMaxHeadDim);
  const auto biased = static_cast<int64_t>(op.slopes.size());
  if (biased > kMaxBiasedHeads) {
    RefuseSize("attention with linear biases of heads", biased, kMaxBiasedHeads);
  }
}

constexpr int kDeltaRows = 8;  // of a block; a warp each

template <typename T, int N>
__global__ void DeltaKernel(const T* attn, const T* d_attn, int64_t rows, int dim, float* delta) {
  const int64_t row = int64_t{blockIdx.x} * kDeltaRows + threadIdx.y;
  float sum = 0.0f;
  for (int col = static_cast<int>(threadIdx.x) * N; row < rows && col < dim; col += 32 * N) {
    const auto a = Vec<T, N>::Load(attn + row * dim + col);
    const auto d = Vec<T, N>::Load(d_attn + row * dim + col);
#pragma unroll
    for (int k = 0; k < N; ++k) sum += AsFloat(a.at[k]) * AsFloat(d.at[k]);
  }
  sum = ReduceLanes(sum, 32, Sum());
  if (threadIdx.x == 0 && row < rows) delta[row] = sum;
}

void ComputeDelta(CudaLaneContext& context, const AttentionCall& call) {
  const int64_t rows = call.attn.rows * call.op.q_heads;
  const auto dim = static_cast<int>(call.op.head_dim);
  WithElementType(call.attn.dtype, [&](auto element) {
    using T = decltype(element);
    WithWidth<T>(dim, IsAligned(call.attn.data) && IsAligned(call.d_attn.data), [&](auto width) {
      DeltaKernel<T, decltype(width)::value>
          <<<Blocks(rows, kDeltaRows), dim3(32, kDeltaRows), 0, context.stream()>>>(
              call.attn.as<const T>(), call.d_attn.as<const T>(), rows, dim, call.delta);
    });
  });
  CheckLaunch("attention backward");
}

}  // namespace

void AttentionForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const Attention&>(base);
  CheckHeadDim(op);
  const AttentionCall call{op, args.batch, args.inputs[0], args.outputs[0], args.outputs[1],
                           {}, {}};
  if (call.qkv.rows == 0) return;
  auto* forward = AttentionForwardFloat;
  if (TensorCoresTake(call)) forward = AttentionForwardTensor;
  if (HopperTakes(Cuda(context), call)) forward = AttentionForwardHopper;
  forward(Cuda(context), call);
}

void AttentionBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const Attention&>(base);
  CheckHeadDim(op);
  const AttentionCall call{op,
                           args.batch,
                           args.inputs[0],
                           args.outputs[0],
                           args.outputs[1],
                           args.d_outputs[0],
                           args.d_inputs[0],
                           args.accumulate_inputs[0],
                           static_cast<float*>(args.workspace)};
  if (!call.d_qkv.present() || call.qkv.rows == 0) return;
  ComputeDelta(Cuda(context), call);
  auto* backward = AttentionBackwardFloat;
  if (TensorCoresTake(call)) backward = AttentionBackwardTensor;
  if (HopperTakes(Cuda(context), call)) backward = AttentionBackwardHopper;
  backward(Cuda(context), call);
}

int64_t AttentionWorkspace(const Op& base, Direction direction, const RowCounts& capacity) {
  const auto& op = static_cast<const Attention&>(base);
  if (direction == Direction::kForward) return 0;
  return capacity.tokens * op.q_heads * SizeOf(DType::kF32);
}

}  // namespace lazytrain::cuda
