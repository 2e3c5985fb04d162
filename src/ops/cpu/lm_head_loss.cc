#include "ops/lm_head_loss.h"

#include <cmath>

#include "ops/cpu/gemm.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/vector_math.h"

namespace lazytrain::cpu {
namespace {

TensorView RowsOf(const TensorView& view, int64_t first, int64_t count) {
  TensorView part = view;
  part.data = view.as<char>() + first * view.cols * SizeOf(view.dtype);
  part.rows = count;
  return part;
}

// Replaces logits by exp(logit - max) and returns the sum of them: float32 over short stretches,
// float64 over these.
double ExpAndSum(float* logits, int64_t count, float max) {
  constexpr int64_t kStretch = 1024;
  double sum = 0.0;
  for (int64_t first = 0; first < count; first += kStretch) {
    float* stretch = logits + first;
    const int64_t length = std::min(kStretch, count - first);
    for (int64_t i = 0; i < length; ++i) stretch[i] = Exp(stretch[i] - max);
    sum += LaneSum(length, [&](int64_t i) { return stretch[i]; });
  }
  return sum;
}

// The loss of one token; its logits become weight (softmax - onehot) if `gradient`, else nothing
// of value.
float LossOfRow(float* logits, int64_t vocab_size, int32_t target, float weight, bool gradient) {
  if (target < 0) {
    if (gradient) std::fill_n(logits, vocab_size, 0.0f);
    return 0.0f;
  }
  if (target >= vocab_size) {
    throw RunError(
        "target id {} is outside the model's vocabulary of {} tokens; use the tokenizer that "
        "belongs to the model",
        target, vocab_size);
  }
  const float max = Max(logits, vocab_size);
  const double target_logit = static_cast<double>(logits[target]) - static_cast<double>(max);
  const double sum = ExpAndSum(logits, vocab_size, max);
  if (gradient) {
    const auto inverse = static_cast<float>(1.0 / sum);
    const float target_probability = logits[target] * inverse;
    for (int64_t i = 0; i < vocab_size; ++i) logits[i] = logits[i] * inverse * weight;
    logits[target] = (target_probability - 1.0f) * weight;
  }
  return static_cast<float>(static_cast<double>(weight) * (std::log(sum) - target_logit));
}

// One chunk: rows [first, first + logits.rows) of the micro-batch.
void LossOfChunk(ThreadPool& threads, const OpArgs& args, int64_t first, const TensorView& logits,
                 bool gradient) {
  const TensorView hidden = RowsOf(args.inputs[0], first, logits.rows);
  Multiply(threads, {hidden, false}, {args.weights[0], true},
           [&](int64_t row, int64_t col, int64_t count, const float* values) {
             std::copy_n(values, count, logits.as<float>() + row * logits.cols + col);
           });
  const auto* targets = args.inputs[1].as<const int32_t>() + first;
  const auto* weights = args.inputs[2].as<const float>() + first;
  float* losses = args.outputs[0].present() ? args.outputs[0].as<float>() + first : nullptr;
  ForBlocks(threads, logits.rows, BlockRows(logits.cols), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float loss = LossOfRow(logits.as<float>() + row * logits.cols, logits.cols,
                                   targets[row], weights[row], gradient);
      if (losses != nullptr) losses[row] = loss;
    }
  });
}

template <typename Body>
void ForChunks(const LmHeadLoss& op, const OpArgs& args, const Body& body) {
  const int64_t tokens = args.inputs[0].rows;
  for (int64_t first = 0; first < tokens; first += op.chunk_rows) {
    const int64_t count = std::min(op.chunk_rows, tokens - first);
    body(first, TensorView{args.workspace, DType::kF32, count, op.vocab_size});
  }
}

}  // namespace

void LmHeadLossForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const LmHeadLoss&>(base);
  ForChunks(op, args, [&](int64_t first, const TensorView& logits) {
    LossOfChunk(Threads(context), args, first, logits, false);
  });
}

void LmHeadLossBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const LmHeadLoss&>(base);
  ThreadPool& threads = Threads(context);
  const TensorView& d_hidden = args.d_inputs[0];
  const TensorView& d_head = args.d_weights[0];
  if (args.inputs[0].rows == 0 && d_head.present() && !args.accumulate_weights[0]) {
    ZeroRows(threads, d_head);
  }
  ForChunks(op, args, [&](int64_t first, const TensorView& logits) {
    LossOfChunk(threads, args, first, logits, true);
    if (d_hidden.present()) {
      Multiply(threads, {logits, false}, {args.weights[0], false},
               [&](int64_t row, int64_t col, int64_t count, const float* values) {
                 StoreRow(d_hidden, first + row, col, count, values, args.accumulate_inputs[0]);
               });
    }
    if (d_head.present()) {
      const bool accumulate = first > 0 || args.accumulate_weights[0];
      Multiply(threads, {logits, true}, {RowsOf(args.inputs[0], first, logits.rows), false},
               [&](int64_t row, int64_t col, int64_t count, const float* values) {
                 StoreRow(d_head, row, col, count, values, accumulate);
               });
    }
  });
}

}  // namespace lazytrain::cpu
