#include "ops/qk_norm.h"

#include <algorithm>

#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/norm_rows.h"
#include "ops/cuda/rows.h"

namespace lazytrain::cuda {
namespace {

// Queries (0) or keys (1).
NormShape ShapeOf(const QkNorm& op, int which, int64_t tokens, DType dtype) {
  const int64_t heads = which == 0 ? op.q_heads : op.kv_heads;
  return {tokens,
          op.per_head ? heads : 1,
          op.group(which),
          (op.q_heads + 2 * op.kv_heads) * op.head_dim,
          op.eps,
          op.scale_offset,
          dtype};
}

int64_t PartialRows(const NormShape& shape) {
  return NormPartialRows(shape.rows(), shape.size, shape.dtype);
}

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
  for (const int which : {0, 1}) {
    NormForward(Cuda(context), ShapeOf(op, which, x.rows, x.dtype), PartOf(op, which, x),
                args.weights[static_cast<size_t>(which)], nullptr, PartOf(op, which, y));
  }
  AddColumns(Cuda(context), x, (op.q_heads + op.kv_heads) * op.head_dim, false, y);
}

void QkNormBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const QkNorm&>(base);
  const TensorView& x = args.inputs[0];
  const TensorView& d_y = args.d_outputs[0];
  const TensorView& d_x = args.d_inputs[0];
  auto* partials = static_cast<float*>(args.workspace);
  for (const int which : {0, 1}) {
    const auto w = static_cast<size_t>(which);
    const NormShape shape = ShapeOf(op, which, x.rows, x.dtype);
    const bool want_scale = args.d_weights[w].present();
    NormBackward(Cuda(context), shape, PartOf(op, which, x), args.weights[w],
                 PartOf(op, which, d_y), args.accumulate_inputs[0],
                 d_x.present() ? PartOf(op, which, d_x) : nullptr, want_scale ? partials : nullptr);
    if (!want_scale) continue;
    // Keys use the same memory: they are behind queries in the stream.
    SumPartialRows(Cuda(context), partials, PartialRows(shape), shape.size,
                   args.accumulate_weights[w], args.d_weights[w]);
  }
  if (d_x.present()) {
    AddColumns(Cuda(context), d_y, (op.q_heads + op.kv_heads) * op.head_dim,
               args.accumulate_inputs[0], d_x);
  }
}

int64_t QkNormWorkspace(const Op& base, Direction direction, const RowCounts& capacity) {
  const auto& op = static_cast<const QkNorm&>(base);
  if (direction == Direction::kForward) return 0;
  int64_t floats = 0;
  for (const int which : {0, 1}) {
    const NormShape shape = ShapeOf(op, which, capacity.tokens, op.dtype);
    floats = std::max(floats, PartialRows(shape) * shape.size);
  }
  return floats * SizeOf(DType::kF32);
}

}  // namespace lazytrain::cuda
