// What dense decoder families have in common: embedding, pre-norm layers of grouped-query attention
// and a gated MLP, final norm and head. A family fills in a DecoderSpec; what it does differently
// it builds itself.
#pragma once

#include <cstdint>
#include <vector>

#include "model/family.h"
#include "model/graph.h"
#include "model/rope_frequencies.h"

namespace lazytrain {

struct DecoderSpec {
  std::string architecture;
  int64_t vocab_size = 0;
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t layers = 0;
  int64_t q_heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t max_positions = 0;
  float norm_eps = 1e-6f;
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  bool tied_head = false;
  RopeFrequencies rope;
  std::vector<int64_t> windows;  // for each layer: sliding window in tokens, 0 for none
};

// The fields that every decoder's config.json names alike; throws Error on impossible values.
DecoderSpec ReadDecoderSpec(const HubConfig& config);

ModelGraph BuildDecoder(const DecoderSpec& spec, const GraphOptions& options);

}  // namespace lazytrain
