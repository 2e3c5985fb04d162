#include "ops/rms_norm.h"

#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/norm_rows.h"
#include "ops/cuda/rows.h"

namespace lazytrain::cuda {
namespace {

NormShape ShapeOf(const RmsNorm& op, const TensorView& x) {
  return {x.rows, 1, op.hidden, op.hidden, op.eps, op.scale_offset, x.dtype};
}

}  // namespace

void RmsNormForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const RmsNorm&>(base);
  const TensorView& x = args.inputs[0];
  NormForward(Cuda(context), ShapeOf(op, x), x.data, args.weights[0],
              op.has_residual ? args.inputs[1].data : nullptr, args.outputs[0].data);
}

void RmsNormBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const RmsNorm&>(base);
  const TensorView& x = args.inputs[0];
  const TensorView& d_y = args.d_outputs[0];
  const TensorView& d_scale = args.d_weights[0];
  auto* partials = d_scale.present() ? static_cast<float*>(args.workspace) : nullptr;
  NormBackward(Cuda(context), ShapeOf(op, x), x.data, args.weights[0], d_y.data,
               args.accumulate_inputs[0], args.d_inputs[0].data, partials);
  if (d_scale.present()) {
    SumPartialRows(Cuda(context), partials, NormPartialRows(x.rows, op.hidden, x.dtype), op.hidden,
                   args.accumulate_weights[0], d_scale);
  }
  // The residual's gradient, where it has a buffer of its own.
  if (op.has_residual && args.d_inputs[1].present() && args.d_inputs[1].data != d_y.data) {
    AddRows(Cuda(context), d_y, args.accumulate_inputs[1], args.d_inputs[1]);
  }
}

int64_t RmsNormWorkspace(const Op& base, Direction direction, const RowCounts& capacity) {
  const auto& op = static_cast<const RmsNorm&>(base);
  if (direction == Direction::kForward) return 0;
  return NormPartialRows(capacity.rows(op.extent), op.hidden, op.dtype) * op.hidden *
         SizeOf(DType::kF32);
}

}  // namespace lazytrain::cuda
