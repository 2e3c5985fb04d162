#include "ops/lm_head_loss.h"

#include <algorithm>

#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/matmul.h"
#include "ops/cuda/rows.h"
#include "ops/cuda/softmax_loss.h"

namespace lazytrain::cuda {
namespace {

TensorView RowsOf(const TensorView& view, int64_t first, int64_t count) {
  TensorView part = view;
  part.data = view.as<std::byte>() + first * view.cols * SizeOf(view.dtype);
  part.rows = count;
  return part;
}

// The chunks of a micro-batch, one after the other in the same memory.
class Chunks {
 public:
  Chunks(const LmHeadLoss& op, const OpArgs& args, LaneContext& context)
      : op_(op), args_(args), context_(Cuda(context)) {}

  // Calls body(first row, logits) with the chunk's losses done and, with `gradient`, the gradient
  // of its logits in their place.
  template <typename Body>
  void Run(bool gradient, const Body& body) {
    const int64_t tokens = args_.inputs[0].rows;
    for (int64_t first = 0; first < tokens; first += op_.chunk_rows) {
      const int64_t count = std::min(op_.chunk_rows, tokens - first);
      const TensorView logits{args_.workspace, DType::kF32, count, op_.vocab_size};
      MultiplyInto(logits, false, {RowsOf(args_.inputs[0], first, count), false},
                   {args_.weights[0], true});
      const TensorView& losses = args_.outputs[0];
      SoftmaxLoss(context_, logits, args_.inputs[1].as<const int32_t>() + first,
                  args_.inputs[2].as<const float>() + first,
                  losses.present() ? losses.as<float>() + first : nullptr, gradient,
                  args_.inputs[0].dtype);
      body(first, logits);
    }
  }

  // d = (accumulate ? d : 0) + a b
  void MultiplyInto(const TensorView& d, bool accumulate, const MatmulOperand& a,
                    const MatmulOperand& b) {
    MatmulCall call;
    call.a = a;
    call.b = b;
    call.d = d;
    call.added = accumulate ? d.data : nullptr;
    // Behind the logits of a whole chunk, wherever the last one ends.
    const int64_t rows = std::min(op_.chunk_rows, args_.inputs[0].rows);
    call.workspace = static_cast<std::byte*>(args_.workspace) +
                     RoundUp(rows * op_.vocab_size * SizeOf(DType::kF32), kAlignment);
    call.workspace_bytes = MatmulWorkspace(op_.vocab_size * op_.hidden);
    Multiply(context_, call);
  }

 private:
  const LmHeadLoss& op_;
  const OpArgs& args_;
  CudaLaneContext& context_;
};

// The gradient of a chunk's logits, as SoftmaxLoss leaves it.
MatmulOperand GradientOf(const TensorView& logits, DType dtype, bool transposed) {
  TensorView gradient = logits;
  gradient.dtype = dtype;
  return {gradient, transposed, logits.cols * (SizeOf(DType::kF32) / SizeOf(dtype))};
}

}  // namespace

void LmHeadLossForward(const Op& base, const OpArgs& args, LaneContext& context) {
  Chunks(static_cast<const LmHeadLoss&>(base), args, context)
      .Run(false, [](int64_t /*first*/, const TensorView& /*logits*/) {});
}

void LmHeadLossBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const LmHeadLoss&>(base);
  const TensorView& hidden = args.inputs[0];
  const TensorView& d_hidden = args.d_inputs[0];
  const TensorView& d_head = args.d_weights[0];
  if (hidden.rows == 0 && d_head.present() && !args.accumulate_weights[0]) {
    Zero(Cuda(context), d_head);
  }
  Chunks chunks(op, args, context);
  chunks.Run(true, [&](int64_t first, const TensorView& logits) {
    if (d_hidden.present()) {
      chunks.MultiplyInto(RowsOf(d_hidden, first, logits.rows), args.accumulate_inputs[0],
                          GradientOf(logits, hidden.dtype, false), {args.weights[0], false});
    }
    if (d_head.present()) {
      chunks.MultiplyInto(d_head, first > 0 || args.accumulate_weights[0],
                          GradientOf(logits, hidden.dtype, true),
                          {RowsOf(hidden, first, logits.rows), false});
    }
  });
}

int64_t LmHeadLossWorkspace(const Op& base, Direction direction, const RowCounts& capacity) {
  const auto& op = static_cast<const LmHeadLoss&>(base);
  return RoundUp(op.WorkspaceBytes(direction, capacity), kAlignment) +
         MatmulWorkspace(op.vocab_size * op.hidden);
}

}  // namespace lazytrain::cuda
