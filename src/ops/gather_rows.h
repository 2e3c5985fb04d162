// Some rows of a value.
#pragma once

#include "ops/op.h"

namespace lazytrain {

// inputs:  x [tokens, hidden], selected_rows [selected, 1] int32 (rows of x)
// outputs: y [selected, hidden]
// Forward only: it stands where logits of chosen tokens are wanted.
struct GatherRows final : Op {
  int64_t hidden = 0;
  DType dtype = DType::kF32;

  std::string_view type() const override { return "gather_rows"; }
  OpCost Cost(Direction direction, const RowCounts& rows) const override;
  BackwardNeeds backward_needs() const override { return {{}, {}, false}; }
  bool differentiable(int) const override { return false; }
  std::string Signature() const override;
};

}  // namespace lazytrain
