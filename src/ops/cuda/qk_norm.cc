#include "ops/qk_norm.h"

#include <algorithm>

#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/norm_rows.h"
#include "ops/cuda/rows.h"

namespace lazytrain::cuda {
namespace {

NormShape ShapeOf(const QkNorm& op, int64_t tokens, DType dtype) {
  NormShape shape;
  shape.tokens = tokens;
  shape.token_stride = (op.q_heads + 2 * op.kv_heads) * op.head_dim;
  shape.eps = op.eps;
  shape.scale_offset = op.scale_offset;
  shape.dtype = dtype;
  return shape;
}

// All heads, each normalised over itself, at once.
NormShape ShapeOfHeads(const QkNorm& op, int64_t tokens, DType dtype) {
  NormShape shape = ShapeOf(op, tokens, dtype);
  shape.groups = op.q_heads + 2 * op.kv_heads;
  shape.second_from = op.q_heads;
  shape.plain_from = op.q_heads + op.kv_heads;
  shape.size = op.head_dim;
  return shape;
}

// All queries (0) or keys (1) of a token as one.
NormShape ShapeOfPart(const QkNorm& op, int which, int64_t tokens, DType dtype) {
  NormShape shape = ShapeOf(op, tokens, dtype);
  shape.size = op.group(which);
  return shape;
}

int64_t PartialFloats(const NormShape& shape) { return MostNormPartialRows(shape) * shape.size; }

// Where queries, keys (1) or values (2) begin, seen from a row's begin.
std::byte* PartOf(const QkNorm& op, int which, const TensorView& view) {
  const int64_t heads = which == 0 ? 0 : (which == 1 ? op.q_heads : op.q_heads + op.kv_heads);
  return view.as<std::byte>() + heads * op.head_dim * SizeOf(view.dtype);
}

}  // namespace

void QkNormForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const QkNorm&>(base);
  const TensorView& x = args.inputs[0];
  const TensorView& y = args.outputs[0];
  if (op.per_head) {
    NormForward(Cuda(context), ShapeOfHeads(op, x.rows, x.dtype), x.data,
                {args.weights[0], args.weights[1]}, nullptr, y.data);
    return;
  }
  for (const int which : {0, 1}) {
    NormForward(Cuda(context), ShapeOfPart(op, which, x.rows, x.dtype), PartOf(op, which, x),
                {args.weights[static_cast<size_t>(which)]}, nullptr, PartOf(op, which, y));
  }
  AddColumns(Cuda(context), x, (op.q_heads + op.kv_heads) * op.head_dim, false, y);
}

namespace {

void BackwardOfHeads(const QkNorm& op, const OpArgs& args, CudaLaneContext& context) {
  const TensorView& x = args.inputs[0];
  const bool want_scales = args.d_weights[0].present() || args.d_weights[1].present();
  auto* partials = want_scales ? static_cast<float*>(args.workspace) : nullptr;
  const NormShape shape = ShapeOfHeads(op, x.rows, x.dtype);
  NormBackward(context, shape, x.data, {args.weights[0], args.weights[1]}, args.d_outputs[0].data,
               args.accumulate_inputs[0], args.d_inputs[0].data, partials);
  if (!want_scales) return;
  const int64_t of_queries = NormPartialRows(shape, 0);
  SumPartialRows(context, shape.size,
                 {{partials, of_queries, args.accumulate_weights[0], args.d_weights[0]},
                  {partials + of_queries * shape.size, NormPartialRows(shape, 1),
                   args.accumulate_weights[1], args.d_weights[1]}});
}

}  // namespace

void QkNormBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const QkNorm&>(base);
  const TensorView& x = args.inputs[0];
  const TensorView& d_y = args.d_outputs[0];
  const TensorView& d_x = args.d_inputs[0];
  if (op.per_head) return BackwardOfHeads(op, args, Cuda(context));
  auto* partials = static_cast<float*>(args.workspace);
  for (const int which : {0, 1}) {
    const auto w = static_cast<size_t>(which);
    const NormShape shape = ShapeOfPart(op, which, x.rows, x.dtype);
    const bool want_scale = args.d_weights[w].present();
    NormBackward(Cuda(context), shape, PartOf(op, which, x), {args.weights[w]},
                 PartOf(op, which, d_y), args.accumulate_inputs[0],
                 d_x.present() ? PartOf(op, which, d_x) : nullptr, want_scale ? partials : nullptr);
    if (!want_scale) continue;
    // Keys use the same memory: they are behind queries in the stream.
    SumPartialRows(
        Cuda(context), shape.size,
        {{partials, NormPartialRows(shape, 0), args.accumulate_weights[w], args.d_weights[w]}});
  }
  if (d_x.present()) {
    AddColumns(Cuda(context), d_y, (op.q_heads + op.kv_heads) * op.head_dim,
               args.accumulate_inputs[0], d_x);
  }
}

int64_t QkNormWorkspace(const Op& base, Direction direction, const RowCounts& capacity) {
  const auto& op = static_cast<const QkNorm&>(base);
  if (direction == Direction::kForward) return 0;
  if (op.per_head) {
    return PartialFloats(ShapeOfHeads(op, capacity.tokens, op.dtype)) * SizeOf(DType::kF32);
  }
  int64_t floats = 0;
  for (const int which : {0, 1}) {
    floats = std::max(floats, PartialFloats(ShapeOfPart(op, which, capacity.tokens, op.dtype)));
  }
  return floats * SizeOf(DType::kF32);
}

}  // namespace lazytrain::cuda
