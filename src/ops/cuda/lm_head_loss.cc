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

// Float32 logits take twice the memory of their gradient in bfloat16. So they are made for a part
// of a chunk's rows at a time, while the gradients wait for products over the whole chunk: the
// head's gradient, in float32, passes through memory once a chunk.
constexpr int64_t kPartRows = 512;

// Where things lie in the workspace. `rows`: of a whole chunk.
struct Layout {
  int64_t part_rows = 0;
  int64_t gradient_at = 0;  // bytes; float32 gradients take the place of their logits
  int64_t matmul_at = 0;

  Layout(const LmHeadLoss& op, bool gradient, int64_t tokens) {
    const int64_t rows = std::min(op.chunk_rows, tokens);
    const bool apart = gradient && op.dtype != DType::kF32;
    part_rows = gradient && !apart ? rows : std::min(rows, kPartRows);
    const int64_t logits = part_rows * op.vocab_size * SizeOf(DType::kF32);
    gradient_at = apart ? RoundUp(logits, kAlignment) : 0;
    const int64_t gradients = apart ? rows * op.vocab_size * SizeOf(op.dtype) : logits;
    matmul_at = RoundUp(gradient_at + gradients, kAlignment);
  }
};

// The chunks of a micro-batch, one after the other in the same memory.
class Chunks {
 public:
  Chunks(const LmHeadLoss& op, bool gradient, const OpArgs& args, LaneContext& context)
      : op_(op),
        gradient_(gradient),
        args_(args),
        context_(Cuda(context)),
        layout_(op, gradient, args.inputs[0].rows) {}

  // Calls body(first row, gradients) with the chunk's losses done and, with `gradient`, the
  // gradients of its logits.
  template <typename Body>
  void Run(const Body& body) {
    const int64_t tokens = args_.inputs[0].rows;
    for (int64_t first = 0; first < tokens; first += op_.chunk_rows) {
      const int64_t count = std::min(op_.chunk_rows, tokens - first);
      TensorView gradients;
      if (gradient_) gradients = {At(layout_.gradient_at), op_.dtype, count, op_.vocab_size};
      for (int64_t row = 0; row < count; row += layout_.part_rows) {
        const int64_t part = std::min(layout_.part_rows, count - row);
        MakeLosses(first + row, part, gradient_ ? RowsOf(gradients, row, part) : TensorView());
      }
      body(first, gradients);
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
    call.workspace = At(layout_.matmul_at);
    call.workspace_bytes = MatmulWorkspace(op_.vocab_size * op_.hidden);
    Multiply(context_, call);
  }

 private:
  void MakeLosses(int64_t first, int64_t count, const TensorView& gradients) {
    const TensorView logits{args_.workspace, DType::kF32, count, op_.vocab_size};
    MultiplyInto(logits, false, {RowsOf(args_.inputs[0], first, count), false},
                 {args_.weights[0], true});
    const TensorView& losses = args_.outputs[0];
    SoftmaxLoss(context_, logits, args_.inputs[1].as<const int32_t>() + first,
                args_.inputs[2].as<const float>() + first,
                losses.present() ? losses.as<float>() + first : nullptr, gradients);
  }
  std::byte* At(int64_t offset) const { return static_cast<std::byte*>(args_.workspace) + offset; }

  const LmHeadLoss& op_;
  bool gradient_;
  const OpArgs& args_;
  CudaLaneContext& context_;
  Layout layout_;
};

}  // namespace

void LmHeadLossForward(const Op& base, const OpArgs& args, LaneContext& context) {
  Chunks(static_cast<const LmHeadLoss&>(base), false, args, context)
      .Run([](int64_t /*first*/, const TensorView& /*gradients*/) {});
}

void LmHeadLossBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const LmHeadLoss&>(base);
  const TensorView& hidden = args.inputs[0];
  const TensorView& d_hidden = args.d_inputs[0];
  const TensorView& d_head = args.d_weights[0];
  if (hidden.rows == 0 && d_head.present() && !args.accumulate_weights[0]) {
    Zero(Cuda(context), d_head);
  }
  Chunks chunks(op, true, args, context);
  chunks.Run([&](int64_t first, const TensorView& gradients) {
    if (d_hidden.present()) {
      chunks.MultiplyInto(RowsOf(d_hidden, first, gradients.rows), args.accumulate_inputs[0],
                          {gradients, false}, {args.weights[0], false});
    }
    if (d_head.present()) {
      chunks.MultiplyInto(d_head, first > 0 || args.accumulate_weights[0], {gradients, true},
                          {RowsOf(hidden, first, gradients.rows), false});
    }
  });
}

int64_t LmHeadLossWorkspace(const Op& base, Direction direction, const RowCounts& capacity) {
  const auto& op = static_cast<const LmHeadLoss&>(base);
  const Layout layout(op, direction == Direction::kBackward, capacity.tokens);
  return layout.matmul_at + MatmulWorkspace(op.vocab_size * op.hidden);
}

}  // namespace lazytrain::cuda
