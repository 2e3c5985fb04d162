// The order of heads in a fused query, key and value projection.
#pragma once

#include "ops/op.h"

namespace lazytrain {

// inputs:  x [tokens, (q_heads + 2 kv_heads) head_dim]: for each key head, the query heads that
//          read it, then the key head, then the value head (InternLM2's wqkv)
// outputs: qkv, of x's shape: all query heads, then key, then value heads
// Backward orders d_qkv the other way and reads nothing.
struct RegroupHeads final : Op {
  int64_t q_heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  DType dtype = DType::kF32;

  std::string_view type() const override { return "regroup_heads"; }
  OpCost Cost(Direction direction, const RowCounts& rows) const override;
  BackwardNeeds backward_needs() const override { return {{}, {}, false}; }
  bool row_wise() const override { return true; }
  std::string Signature() const override;

  // Where head `head` of qkv lies in x.
  int64_t Source(int64_t head) const;
};

}  // namespace lazytrain
