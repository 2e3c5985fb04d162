// Inverse frequencies of rotary embeddings under the scalings that config.json can name.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/hub_config.h"

namespace lazytrain {

struct RopeFrequencies {
  std::vector<float> inverse;       // rotary_channels / 2
  std::vector<float> long_inverse;  // empty, or those of documents of more than long_beyond tokens
  double dynamic_factor = 0.0;      // not 0: such documents scale to their length (ops/rope.h)
  int64_t long_beyond = 0;
  float scaling = 1.0f;  // factor on cosine and sine
};

struct RopeDefaults {
  double theta = 10000.0;
  // Layers of this type ("full_attention") have parameters of their own, where they are listed by
  // type; empty: one set for all.
  std::string_view layer_type;
};

// theta^(-2i / rotary_channels) of channel pair i. All frequencies are made in float32 operations,
// in transformers' order: the models were trained with what these round to.
RopeFrequencies UnscaledFrequencies(double theta, int64_t rotary_channels);

// Reads `rope_theta` and `rope_scaling` (transformers 4.x) or `rope_parameters` (5.x; of all layers
// or by layer type). Types: default (also where rope has several axes that text does not tell
// apart: mrope), linear (Chen et al. 2023: all frequencies over `factor`), dynamic (NTK-aware, in
// documents longer than max_position_embeddings by their length: ops/rope.h), llama3 (as published
// with Llama 3.1: long wavelengths over `factor`, short ones kept, a linear blend between), yarn
// (Peng et al. 2023), longrope or su (Ding et al. 2024). An unknown type throws Error naming it,
// and so do parameters by layer type where `defaults` names none.
RopeFrequencies ReadRopeFrequencies(const HubConfig& config, int64_t rotary_channels,
                                    const RopeDefaults& defaults = {});

// The model's context: `max_position_embeddings` (2048 where it is missing). Under dynamic scaling,
// whose formula has no end (transformers runs any length), times `factor`, rounded down: what files
// name for how far it was meant to stretch.
int64_t ContextTokens(const HubConfig& config);

// head_dim times `partial_rotary_factor` (of the file, or `fallback`), rounded down.
int64_t RotaryChannels(const HubConfig& config, int64_t head_dim, double fallback);

}  // namespace lazytrain
