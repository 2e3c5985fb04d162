// Root mean square normalisation (Zhang and Sennrich 2019).
#pragma once

#include "ops/op.h"

namespace lazytrain {

// inputs:  x [tokens or selected, hidden], residual [same shape] (only if has_residual)
// weights: scale [hidden]
// outputs: y = x / sqrt(mean(x^2) + eps) * (scale + scale_offset) (+ residual), all in float32, one
//          rounding at the end
// Backward reads x and the scale and recomputes the statistics; the residual's gradient is d_y
// itself. Sums over rows for d_scale are made per block of kRowBlock rows, then over blocks in
// order.
struct RmsNorm final : Op {
  static constexpr int64_t kRowBlock = 64;

  int64_t hidden = 0;
  float eps = 1e-6f;
  float scale_offset = 0.0f;  // 1 where the stored scale is the distance from 1
  bool has_residual = false;
  DType dtype = DType::kF32;
  Extent extent = Extent::kTokens;

  std::string_view type() const override { return "rms_norm"; }
  OpCost Cost(Direction direction, const RowCounts& rows) const override;
  // Backward: one float32 row of d_scale a block of rows.
  int64_t WorkspaceBytes(Direction direction, const RowCounts& capacity) const override;
  BackwardNeeds backward_needs() const override { return {{0}, {}, true}; }
  int residual_input() const override { return has_residual ? 1 : kNone; }
  bool row_wise() const override { return true; }
  std::string Signature() const override;
};

}  // namespace lazytrain
