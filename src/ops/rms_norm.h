// Root mean square normalisation (Zhang and Sennrich 2019).
#pragma once

#include "ops/op.h"

namespace lazytrain {

// inputs:  x [tokens or selected, hidden]
// weights: scale [hidden]
// outputs: y = x / sqrt(mean(x^2) + eps) * scale, statistics in float32
// Backward reads x and the scale and recomputes the statistics. Sums over rows for d_scale are made
// per block of kRowBlock rows, then over blocks in order.
struct RmsNorm final : Op {
  static constexpr int64_t kRowBlock = 64;

  int64_t hidden = 0;
  float eps = 1e-6f;
  DType dtype = DType::kF32;
  Extent extent = Extent::kTokens;

  std::string_view type() const override { return "rms_norm"; }
  OpCost Cost(Direction direction, const RowCounts& rows) const override;
  // Backward: one float32 row of d_scale a block of rows.
  int64_t WorkspaceBytes(Direction direction, const RowCounts& capacity) const override;
  BackwardNeeds backward_needs() const override { return {{0}, {}, true}; }
  std::string Signature() const override;
};

}  // namespace lazytrain
