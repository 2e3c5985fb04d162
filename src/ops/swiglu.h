// Gated linear unit with SiLU (Shazeer 2020).
#pragma once

#include "ops/op.h"

namespace lazytrain {

// inputs:  gate_up [tokens, 2 intermediate]: gate channels, then up channels
// outputs: act [tokens, intermediate] = silu(gate) * up, computed in float32
// Backward reads gate_up.
struct Swiglu final : Op {
  int64_t intermediate = 0;
  DType dtype = DType::kF32;

  std::string_view type() const override { return "swiglu"; }
  OpCost Cost(Direction direction, const RowCounts& rows) const override;
  BackwardNeeds backward_needs() const override { return {{0}, {}, false}; }
  bool row_wise() const override { return true; }
  std::string Signature() const override;
};

}  // namespace lazytrain
