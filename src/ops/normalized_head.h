// An output projection whose rows are scaled to length 1 (Baichuan 2, Yang et al. 2023).
#pragma once

#include "ops/linear.h"
#include "ops/lm_head_loss.h"

namespace lazytrain {

// As LmHeadLoss with w_i / max(|w_i|, 1e-12) for row i of the head. The normalised head lies in the
// workspace, in backward its float32 gradient as well:
//   d_w_i = (g_i - n_i (n_i . g_i)) / |w_i|, n_i the normalised row, g_i its gradient.
struct NormalizedLmHeadLoss final : Op {
  LmHeadLoss loss;

  std::string_view type() const override { return "normalized_lm_head_loss"; }
  OpCost Cost(Direction direction, const RowCounts& rows) const override;
  int64_t WorkspaceBytes(Direction direction, const RowCounts& capacity) const override;
  BackwardNeeds backward_needs() const override { return loss.backward_needs(); }
  bool differentiable(int input) const override { return loss.differentiable(input); }
  bool backward_computes_outputs() const override { return true; }
  std::string Signature() const override { return "normalized_" + loss.Signature(); }
};

// As Linear (without bias and residual) with the same normalised weight. Forward only: it stands
// where logits are wanted.
struct NormalizedLinear final : Op {
  Linear linear;

  std::string_view type() const override { return "normalized_linear"; }
  OpCost Cost(Direction direction, const RowCounts& rows) const override;
  int64_t WorkspaceBytes(Direction direction, const RowCounts& capacity) const override;
  BackwardNeeds backward_needs() const override { return linear.backward_needs(); }
  std::string Signature() const override { return "normalized_" + linear.Signature(); }
};

}  // namespace lazytrain
