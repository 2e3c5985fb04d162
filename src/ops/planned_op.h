// Ops that are planned and estimated but cannot run: their shapes, costs and what their backward
// reads are known, kernels do not exist. Running one fails and names it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ops/op.h"

namespace lazytrain {

// Cost is a constant times rows.
struct PlannedOp final : Op {
  std::string name;        // type()
  std::string attributes;  // for the signature
  Extent extent = Extent::kTokens;
  double flops = 0;           // forward, a row
  double bytes = 0;           // forward, a row; read and written
  double backward_ratio = 2;  // backward's flops and bytes over forward's
  BackwardNeeds needs;
  int residual = kNone;
  std::vector<int> constants;  // inputs that get no gradient

  std::string_view type() const override { return name; }
  OpCost Cost(Direction direction, const RowCounts& rows) const override;
  BackwardNeeds backward_needs() const override { return needs; }
  int residual_input() const override { return residual; }
  bool differentiable(int input) const override;
  std::string Signature() const override;
};

// Attention in a form that the op "attention" does not have; `name` says which. Queries and keys
// have qk_dim channels a head, values v_dim.
struct PlannedAttention final : Op {
  std::string name;
  std::string attributes;
  Extent extent = Extent::kTokens;
  int64_t q_heads = 0;
  int64_t kv_heads = 0;
  int64_t qk_dim = 0;
  int64_t v_dim = 0;
  int64_t window = 0;  // causal: tokens seen, 0 for all of the document
  int64_t span = 0;    // rows that each row sees in both directions; 0: causal
  BackwardNeeds needs{{0}, {0, 1}, false};
  DType dtype = DType::kF32;

  std::string_view type() const override { return name; }
  OpCost Cost(Direction direction, const RowCounts& rows) const override;
  BackwardNeeds backward_needs() const override { return needs; }
  std::string Signature() const override;
};

}  // namespace lazytrain
