// Rows of a table by token id.
#pragma once

#include "ops/op.h"

namespace lazytrain {

// inputs:  input_ids [tokens, 1] int32
// weights: table [vocab_size, hidden]
// outputs: x [tokens, hidden]
// Backward adds d_x's rows into d_table in token order (no atomics: the same bits every time).
struct Embedding final : Op {
  int64_t vocab_size = 0;
  int64_t hidden = 0;
  DType dtype = DType::kF32;

  std::string_view type() const override { return "embedding"; }
  OpCost Cost(Direction direction, const RowCounts& rows) const override;
  BackwardNeeds backward_needs() const override { return {{0}, {}, false}; }
  bool differentiable(int) const override { return false; }
  std::string Signature() const override;
};

}  // namespace lazytrain
