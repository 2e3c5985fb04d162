// The output projection and the cross-entropy loss in one, a chunk of tokens at a time: no chunk's
// logits outlive it.
#pragma once

#include "ops/op.h"

namespace lazytrain {

// inputs:  hidden [tokens, hidden], targets [tokens, 1] int32 (negative: not trained),
//          loss_weights [tokens, 1] float32
// weights: head [vocab_size, hidden]
// outputs: token_loss [tokens, 1] float32 = loss_weight * (logsumexp(logits) - logits[target]), 0
//          where the target is negative. The loss of a step is the sum over all its tokens.
// Forward computes token_loss. Backward computes token_loss and, in the same sweep, d_hidden and
// d_head: logits, softmax - onehot and both products of one chunk before the next. There is no
// d_output: the loss is where gradients begin.
struct LmHeadLoss final : Op {
  int64_t vocab_size = 0;
  int64_t hidden = 0;
  int64_t chunk_rows = 0;  // tokens a chunk; part of the numerics key
  DType dtype = DType::kF32;

  std::string_view type() const override { return "lm_head_loss"; }
  OpCost Cost(Direction direction, const RowCounts& rows) const override;
  int64_t WorkspaceBytes(Direction direction, const RowCounts& capacity) const override;
  BackwardNeeds backward_needs() const override { return {{0, 1, 2}, {}, true}; }
  bool differentiable(int input) const override { return input == 0; }
  bool backward_computes_outputs() const override { return true; }
  std::string Signature() const override;
};

}  // namespace lazytrain
