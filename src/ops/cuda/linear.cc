#include "ops/linear.h"

#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/matmul.h"
#include "ops/cuda/rows.h"

namespace lazytrain::cuda {
namespace {

// The matrix itself where a product is to be added to it.
const void* AddedTo(const TensorView& target, bool accumulate) {
  return accumulate ? target.data : nullptr;
}

}  // namespace

void LinearForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const Linear&>(base);
  const TensorView& y = args.outputs[0];
  MatmulCall call;
  call.a = {args.inputs[0], false};
  call.b = {args.weights[0], true};
  call.d = y;
  if (op.has_residual) call.added = args.inputs[1].data;
  // The library adds a bias of the output's dtype only; adding it to a float32 output afterwards
  // rounds no earlier.
  const bool bias_apart = op.has_bias && args.weights[1].dtype != y.dtype;
  if (op.has_bias && !bias_apart) call.bias = args.weights[1].data;
  Multiply(Cuda(context), call, args.workspace);
  if (bias_apart) AddToEveryRow(Cuda(context), args.weights[1], y);
}

void LinearBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const Linear&>(base);
  const TensorView& d_y = args.d_outputs[0];
  const TensorView& d_x = args.d_inputs[0];
  const TensorView& d_weight = args.d_weights[0];
  if (d_weight.present()) {
    Multiply(Cuda(context),
             {{d_y, true},
              {args.inputs[0], false},
              d_weight,
              AddedTo(d_weight, args.accumulate_weights[0])},
             args.workspace);
  }
  if (op.has_bias && args.d_weights[1].present()) {
    auto* sums = static_cast<std::byte*>(args.workspace) + kMatmulWorkspace;
    ColumnSums(Cuda(context), d_y, args.accumulate_weights[1], args.d_weights[1], sums);
  }
  if (d_x.present()) {
    Multiply(Cuda(context),
             {{d_y, false}, {args.weights[0], false}, d_x, AddedTo(d_x, args.accumulate_inputs[0])},
             args.workspace);
  }
  // Last: the products above read d_y. The residual's gradient, where it has a buffer of its own.
  if (op.has_residual && args.d_inputs[1].present() && args.d_inputs[1].data != d_y.data) {
    AddRows(Cuda(context), d_y, args.accumulate_inputs[1], args.d_inputs[1]);
  }
}

int64_t LinearWorkspace(const Op& base, Direction direction, const RowCounts& capacity) {
  const auto& op = static_cast<const Linear&>(base);
  if (direction == Direction::kForward || !op.has_bias) return kMatmulWorkspace;
  return kMatmulWorkspace + ColumnSumsWorkspace(capacity.rows(op.extent), op.out_features);
}

}  // namespace lazytrain::cuda
