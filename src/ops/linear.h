// Matrix product with a weight, and what is commonly added to it.
#pragma once

#include "ops/op.h"

namespace lazytrain {

// inputs:  x [rows, in_features], residual [rows, out_features] (only if has_residual)
// weights: weight [out_features, in_features], bias [out_features] (only if has_bias)
// outputs: y = x weight^T (+ bias) (+ residual): float32 accumulation, one rounding at the end
// Backward: d_x = d_y weight, d_weight (+)= d_y^T x, d_bias (+)= column sums of d_y; the residual's
// gradient is d_y itself. Reads x and the weight.
struct Linear final : Op {
  int64_t in_features = 0;
  int64_t out_features = 0;
  bool has_bias = false;
  bool has_residual = false;
  DType dtype = DType::kF32;
  DType output_dtype = DType::kF32;
  Extent extent = Extent::kTokens;

  std::string_view type() const override { return "linear"; }
  OpCost Cost(Direction direction, const RowCounts& rows) const override;
  BackwardNeeds backward_needs() const override { return {{0}, {}, true}; }
  int residual_input() const override { return has_residual ? 1 : kNone; }
  bool row_wise() const override { return true; }
  std::string Signature() const override;
};

}  // namespace lazytrain
