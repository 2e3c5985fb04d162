// Rotary position embedding (Su et al. 2021), in both layouts of the hub.
#pragma once

#include <vector>

#include "ops/op.h"

namespace lazytrain {

// inputs:  qkv [tokens, (q_heads + 2 kv_heads) head_dim], positions [tokens, 1] int32
// outputs: qkv, written over the input
// For every query and key head, channels (i, i + r) with r = inverse_frequencies.size(), or
// (2i, 2i + 1) if interleaved, turn by position * inverse_frequencies[i] (float32), cosine and sine
// both times `scaling`. Channels from 2r on and the values stay as they are. Documents of more than
// long_beyond tokens may have frequencies of their own (FrequenciesFor). Backward turns the other
// way; it reads only the positions.
struct Rope final : Op {
  int64_t q_heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  std::vector<float> inverse_frequencies;       // rotary channels / 2
  std::vector<float> long_inverse_frequencies;  // as many, or none
  double dynamic_factor = 0.0;                  // 0: none; needs 2 frequencies or more
  int64_t long_beyond = 0;                      // tokens of a document; of the two above
  bool interleaved = false;
  float scaling = 1.0f;
  DType dtype = DType::kF32;

  std::string_view type() const override { return "rope"; }
  OpCost Cost(Direction direction, const RowCounts& rows) const override;
  BackwardNeeds backward_needs() const override { return {{1}, {}, false}; }
  bool in_place() const override { return true; }
  bool differentiable(int input) const override { return input == 0; }
  bool row_wise() const override { return true; }
  bool Continues(int64_t cached, int64_t total) const override {
    return long_beyond == 0 || total <= long_beyond ||
           (cached > long_beyond && dynamic_factor == 0.0);
  }
  std::string Signature() const override;

  // The frequencies of a document of that many tokens. Beyond long_beyond, LongRoPE (Ding et al.
  // 2024) has a second set; dynamic scaling (NTK-aware, as transformers' "dynamic" does it) has one
  // for each length n:
  //   inverse_frequencies[i] * (dynamic_factor (n / long_beyond - 1) + 1)^(-i / (r - 1)),
  // which is a base that grows with n. Every document counts for itself, as if it were a batch of
  // its own: transformers takes the longest sequence of a batch, and remembers longer ones.
  std::vector<float> FrequenciesFor(int64_t document_tokens) const;
};

}  // namespace lazytrain
