#include "ops/rms_norm.h"

#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/norm_rows.h"
#include "ops/cuda/rows.h"

namespace lazytrain::cuda {
namespace {

NormShape ShapeOf(const RmsNorm& op, int64_t rows, DType dtype) {
  NormShape shape;
  shape.tokens = rows;
  shape.size = shape.token_stride = op.hidden;
  shape.eps = op.eps;
  shape.scale_offset = op.scale_offset;
  shape.dtype = dtype;
  return shape;
}

NormShape ShapeOf(const RmsNorm& op, const TensorView& x) { return ShapeOf(op, x.rows, x.dtype); }

}  // namespace

void RmsNormForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const RmsNorm&>(base);
  const TensorView& x = args.inputs[0];
  NormForward(Cuda(context), ShapeOf(op, x), x.data, {args.weights[0]},
              op.has_residual ? args.inputs[1].data : nullptr, args.outputs[0].data);
}

void RmsNormBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const RmsNorm&>(base);
  const TensorView& x = args.inputs[0];
  const TensorView& d_y = args.d_outputs[0];
  const TensorView& d_scale = args.d_weights[0];
  auto* partials = d_scale.present() ? static_cast<float*>(args.workspace) : nullptr;
  NormBackward(Cuda(context), ShapeOf(op, x), x.data, {args.weights[0]}, d_y.data,
               args.accumulate_inputs[0], args.d_inputs[0].data, partials);
  if (d_scale.present()) {
    SumPartialRows(
        Cuda(context), op.hidden,
        {{partials, NormPartialRows(ShapeOf(op, x), 0), args.accumulate_weights[0], d_scale}});
  }
  // The residual's gradient, where it has a buffer of its own.
  if (op.has_residual && args.d_inputs[1].present() && args.d_inputs[1].data != d_y.data) {
    AddRows(Cuda(context), d_y, args.accumulate_inputs[1], args.d_inputs[1]);
  }
}

int64_t RmsNormWorkspace(const Op& base, Direction direction, const RowCounts& capacity) {
  const auto& op = static_cast<const RmsNorm&>(base);
  if (direction == Direction::kForward) return 0;
  return MostNormPartialRows(ShapeOf(op, capacity.rows(op.extent), op.dtype)) * op.hidden *
         SizeOf(DType::kF32);
}

}  // namespace lazytrain::cuda
