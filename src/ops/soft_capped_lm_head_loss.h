// Output projection and loss where logits are capped (Gemma 2); for planning only.
#pragma once

#include "ops/lm_head_loss.h"

namespace lazytrain {

// As LmHeadLoss, with cap tanh(logits / cap) for logits.
struct SoftCappedLmHeadLoss final : Op {
  LmHeadLoss loss;

  std::string_view type() const override { return "soft_capped_lm_head_loss"; }
  OpCost Cost(Direction direction, const RowCounts& rows) const override {
    return loss.Cost(direction, rows);
  }
  int64_t WorkspaceBytes(Direction direction, const RowCounts& capacity) const override {
    return loss.WorkspaceBytes(direction, capacity);
  }
  BackwardNeeds backward_needs() const override { return loss.backward_needs(); }
  bool differentiable(int input) const override { return loss.differentiable(input); }
  bool backward_computes_outputs() const override { return true; }
  std::string Signature() const override { return "soft_capped_" + loss.Signature(); }
};

}  // namespace lazytrain
