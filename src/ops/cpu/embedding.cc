#include "ops/embedding.h"

#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"

namespace lazytrain::cpu {
namespace {

// Row of the table for a token; an id outside it would read or write someone else's memory.
int64_t TableRow(int32_t id, const Embedding& op) {
  if (id < 0 || id >= op.vocab_size) {
    throw RunError(
        "token id {} is outside the model's vocabulary of {} tokens; use the tokenizer that "
        "belongs to the model",
        id, op.vocab_size);
  }
  return id;
}

}  // namespace

void EmbeddingForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const Embedding&>(base);
  const TensorView& table = args.weights[0];
  const TensorView& x = args.outputs[0];
  const auto* ids = args.inputs[0].as<const int32_t>();
  WithElementType(table.dtype, [&](auto element) {
    using T = decltype(element);
    ForBlocks(Threads(context), x.rows, BlockRows(op.hidden), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* source = table.as<const T>() + TableRow(ids[row], op) * op.hidden;
        WithElementType(x.dtype, [&](auto x_element) {
          using X = decltype(x_element);
          X* target = x.as<X>() + row * op.hidden;
          for (int64_t i = 0; i < op.hidden; ++i) target[i] = FromFloat<X>(ToFloat(source[i]));
        });
      }
    });
  });
}

void EmbeddingBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const Embedding&>(base);
  const TensorView& d_table = args.d_weights[0];
  if (!d_table.present()) return;
  if (!args.accumulate_weights[0]) ZeroRows(Threads(context), d_table);
  const TensorView& d_x = args.d_outputs[0];
  const auto* ids = args.inputs[0].as<const int32_t>();
  if (d_x.rows == 0) return;
  // A task owns some columns of the whole table, so every sum is made in token order.
  constexpr int64_t kColumns = 64;
  WithElementType(d_x.dtype, [&](auto element) {
    using T = decltype(element);
    ForBlocks(Threads(context), op.hidden, kColumns, [&](int64_t begin, int64_t end) {
      for (int64_t row = 0; row < d_x.rows; ++row) {
        const T* source = d_x.as<const T>() + row * op.hidden;
        float* target = d_table.as<float>() + TableRow(ids[row], op) * op.hidden;
        for (int64_t i = begin; i < end; ++i) target[i] += ToFloat(source[i]);
      }
    });
  });
}

}  // namespace lazytrain::cpu
