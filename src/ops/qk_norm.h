// Root mean square normalisation of queries and keys before their product (Dehghani et al. 2023).
#pragma once

#include "ops/op.h"

namespace lazytrain {

// inputs:  x [tokens, (q_heads + 2 kv_heads) head_dim]: all query heads, then key, then value heads
// weights: q_scale, k_scale: [head_dim] each if per_head, else [q_heads head_dim] and
//          [kv_heads head_dim]
// outputs: qkv, of x's shape: queries and keys as RmsNorm makes them, over each head alone if
//          per_head, else over all query heads and over all key heads; values as they are
// Backward reads x and the scales; sums over rows are made as RmsNorm does.
struct QkNorm final : Op {
  static constexpr int64_t kRowBlock = 64;

  int64_t q_heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  bool per_head = true;
  float eps = 1e-6f;
  float scale_offset = 0.0f;  // as in RmsNorm
  DType dtype = DType::kF32;

  // Channels that share a mean: of queries (0) or of keys (1).
  int64_t group(int which) const {
    return per_head ? head_dim : (which == 0 ? q_heads : kv_heads) * head_dim;
  }

  std::string_view type() const override { return "qk_norm"; }
  OpCost Cost(Direction direction, const RowCounts& rows) const override;
  // Backward: one float32 row of both d_scales a block of rows.
  int64_t WorkspaceBytes(Direction direction, const RowCounts& capacity) const override;
  BackwardNeeds backward_needs() const override { return {{0}, {}, true}; }
  bool row_wise() const override { return true; }
  std::string Signature() const override;
};

}  // namespace lazytrain
