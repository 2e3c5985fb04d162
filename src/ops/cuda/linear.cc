#include "ops/linear.h"

#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/matmul.h"
#include "ops/cuda/rows.h"

namespace lazytrain::cuda {
namespace {

// A product without operands yet.
MatmulCall CallOf(const Linear& op, const OpArgs& args) {
  MatmulCall call;
  call.workspace = args.workspace;
  call.workspace_bytes = MatmulWorkspace(op.in_features * op.out_features);
  return call;
}

}  // namespace

void LinearForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const Linear&>(base);
  const TensorView& y = args.outputs[0];
  MatmulCall call = CallOf(op, args);
  call.a = {args.inputs[0], false};
  call.b = {args.weights[0], true};
  call.d = y;
  if (op.has_residual) call.added = args.inputs[1].data;
  // The library adds a bias of the output's dtype only; adding it to a float32 output afterwards
  // rounds no earlier.
  const bool bias_apart = op.has_bias && args.weights[1].dtype != y.dtype;
  if (op.has_bias && !bias_apart) call.bias = args.weights[1].data;
  Multiply(Cuda(context), call);
  if (bias_apart) AddToEveryRow(Cuda(context), args.weights[1], y);
}

void LinearBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const Linear&>(base);
  const TensorView& d_y = args.d_outputs[0];
  const TensorView& d_x = args.d_inputs[0];
  const TensorView& d_weight = args.d_weights[0];
  MatmulCall call = CallOf(op, args);
  if (d_weight.present()) {
    call.a = {d_y, true};
    call.b = {args.inputs[0], false};
    call.d = d_weight;
    call.added = args.accumulate_weights[0] ? d_weight.data : nullptr;
    Multiply(Cuda(context), call);
  }
  if (op.has_bias && args.d_weights[1].present()) {
    auto* sums = static_cast<std::byte*>(args.workspace) + call.workspace_bytes;
    ColumnSums(Cuda(context), d_y, args.accumulate_weights[1], args.d_weights[1], sums);
  }
  if (d_x.present()) {
    call.a = {d_y, false};
    call.b = {args.weights[0], false};
    call.d = d_x;
    call.added = args.accumulate_inputs[0] ? d_x.data : nullptr;
    Multiply(Cuda(context), call);
  }
  // Last: the products above read d_y. The residual's gradient, where it has a buffer of its own.
  if (op.has_residual && args.d_inputs[1].present() && args.d_inputs[1].data != d_y.data) {
    AddRows(Cuda(context), d_y, args.accumulate_inputs[1], args.d_inputs[1]);
  }
}

int64_t LinearWorkspace(const Op& base, Direction direction, const RowCounts& capacity) {
  const auto& op = static_cast<const Linear&>(base);
  const int64_t products = MatmulWorkspace(op.in_features * op.out_features);
  if (direction == Direction::kForward || !op.has_bias) return products;
  return products + ColumnSumsWorkspace(capacity.rows(op.extent), op.out_features);
}

}  // namespace lazytrain::cuda
