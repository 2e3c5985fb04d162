#include "ops/normalized_head.h"

#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/normalize_rows.h"

namespace lazytrain::cuda {
namespace {

// `memory` gets the weight with rows of length 1.
TensorView Normalize(LaneContext& context, const TensorView& weight, void* memory) {
  NormalizeRows(Cuda(context), weight, memory);
  TensorView normalized = weight;
  normalized.data = memory;
  return normalized;
}

}  // namespace

void NormalizedLmHeadLossForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const NormalizedLmHeadLoss&>(base);
  auto* memory = static_cast<std::byte*>(args.workspace);
  OpArgs inner = args;
  inner.weights[0] = Normalize(context, args.weights[0], memory);
  inner.workspace = memory + RoundUp(args.weights[0].bytes(), kAlignment);
  LmHeadLossForward(op.loss, inner, context);
}

void NormalizedLmHeadLossBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const NormalizedLmHeadLoss&>(base);
  auto* memory = static_cast<std::byte*>(args.workspace);
  OpArgs inner = args;
  inner.weights[0] = Normalize(context, args.weights[0], memory);
  memory += RoundUp(args.weights[0].bytes(), kAlignment);
  TensorView gradient = args.d_weights[0];
  if (gradient.present()) gradient.data = memory;
  inner.d_weights[0] = gradient;
  inner.accumulate_weights[0] = false;
  inner.workspace = memory + RoundUp(args.weights[0].size() * SizeOf(DType::kF32), kAlignment);
  LmHeadLossBackward(op.loss, inner, context);
  if (gradient.present()) {
    NormalizeRowsBackward(Cuda(context), args.weights[0], gradient, args.accumulate_weights[0],
                          args.d_weights[0]);
  }
}

void NormalizedLinearForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const NormalizedLinear&>(base);
  OpArgs inner = args;
  inner.weights[0] = Normalize(context, args.weights[0], args.workspace);
  inner.workspace =
      static_cast<std::byte*>(args.workspace) + RoundUp(args.weights[0].bytes(), kAlignment);
  LinearForward(op.linear, inner, context);
}

int64_t NormalizedLmHeadLossWorkspace(const Op& base, Direction direction,
                                      const RowCounts& capacity) {
  const auto& op = static_cast<const NormalizedLmHeadLoss&>(base);
  return base.WorkspaceBytes(direction, capacity) - op.loss.WorkspaceBytes(direction, capacity) +
         LmHeadLossWorkspace(op.loss, direction, capacity);
}

int64_t NormalizedLinearWorkspace(const Op& base, Direction direction, const RowCounts& capacity) {
  const auto& op = static_cast<const NormalizedLinear&>(base);
  return RoundUp(base.WorkspaceBytes(direction, capacity), kAlignment) +
         LinearWorkspace(op.linear, direction, capacity);
}

}  // namespace lazytrain::cuda
