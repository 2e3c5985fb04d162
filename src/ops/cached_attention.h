// Causal softmax attention of rows that follow others of the same document, whose keys and values
// were kept.
#pragma once

#include "ops/attention.h"

namespace lazytrain {

// inputs:  qkv [tokens, (q_heads + 2 kv_heads) head_dim], as Attention's;
//          cache [context, 2 kv_heads head_dim]: key heads, then value heads, of the document's
//          tokens so far; rows [0, cached) are there (RowCounts::cached)
// outputs: attn [tokens, q_heads head_dim]; the cache, with rows [cached, cached + tokens) added
// One document; no backward. Bit for bit what Attention gives for the same rows of the document,
// however it was cut.
struct CachedAttention final : Op {
  explicit CachedAttention(const Attention& attention) : attention(attention) {}

  Attention attention;

  int64_t cache_cols() const { return 2 * attention.kv_heads * attention.head_dim; }

  std::string_view type() const override { return "cached_attention"; }
  OpCost Cost(Direction direction, const RowCounts& rows) const override;
  int64_t WorkspaceBytes(Direction direction, const RowCounts& capacity) const override;
  BackwardNeeds backward_needs() const override { return {{}, {}, false}; }
  std::string Signature() const override;
};

}  // namespace lazytrain
