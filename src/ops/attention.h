// Causal softmax attention over packed documents, with grouped queries (Ainslie et al. 2023).
#pragma once

#include <vector>

#include "ops/op.h"

namespace lazytrain {

// inputs:  qkv [tokens, (q_heads + 2 kv_heads) head_dim]: all query heads, then key, then value
// heads outputs: attn [tokens, q_heads head_dim]; lse [tokens, q_heads] float32, the natural
// logarithm of
//          each row's sum of exponentials
// Query head h reads key head h / (q_heads / kv_heads). Token t of a document sees tokens s of the
// same document with s <= t and, with window > 0, s > t - window. Its score is scale times the
// product of query and key plus, where there are slopes, slopes[h] (s - t): linear biases (Press et
// al. 2022), which need scale > 0. Scores, softmax and sums are float32 (Dao et al. 2022: tiles,
// nothing of size tokens^2 is kept).
// Backward reads qkv, attn and lse; d_qkv is written whole.
struct Attention final : Op {
  // Rows of queries and keys handled at once; fixed, since sums are made tile by tile.
  static constexpr int64_t kTile = 128;

  int64_t q_heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  float scale = 1.0f;
  int64_t window = 0;         // tokens, itself included; 0: no limit
  std::vector<float> slopes;  // one a query head, or none
  DType dtype = DType::kF32;

  std::string_view type() const override { return "attention"; }
  OpCost Cost(Direction direction, const RowCounts& rows) const override;
  int64_t WorkspaceBytes(Direction direction, const RowCounts& capacity) const override;
  BackwardNeeds backward_needs() const override { return {{0}, {0, 1}, false}; }
  Continuation continuation() const override;
  std::string Signature() const override;
};

}  // namespace lazytrain
