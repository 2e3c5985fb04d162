// Inverse frequencies of rotary embeddings under the scalings that config.json can name.
#pragma once

#include <cstdint>
#include <vector>

#include "model/hub_config.h"

namespace lazytrain {

struct RopeFrequencies {
  std::vector<float> inverse;  // rotary_channels / 2
  float scaling = 1.0f;        // factor on cosine and sine
};

// Reads `rope_theta` and `rope_scaling` (transformers 4.x) or `rope_parameters` (5.x). Types:
// default, linear (Chen et al. 2023: all frequencies over `factor`), llama3 (as published with
// Llama 3.1: long wavelengths over `factor`, short ones kept, a linear blend between). An unknown
// type throws Error naming it.
RopeFrequencies ReadRopeFrequencies(const HubConfig& config, int64_t rotary_channels);

}  // namespace lazytrain
