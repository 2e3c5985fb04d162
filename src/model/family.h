// Model families: from config.json to a layer graph. One file a family in families/.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "model/graph.h"
#include "model/hub_config.h"

namespace lazytrain {

// What the graph depends on beside config.json.
struct GraphOptions {
  DType dtype = DType::kBF16;      // of values and weights on the device
  int64_t head_chunk_rows = 1024;  // tokens whose logits exist at once
};

struct Family {
  std::string_view model_type;  // as config.json spells it
  ModelGraph (*build)(const HubConfig& config, const GraphOptions& options);
};

std::span<const Family> Families();

// The graph of the model that `config` describes. Throws Error for an unknown model_type (naming
// the supported ones) and for values that cannot be.
ModelGraph BuildModelGraph(const HubConfig& config, const GraphOptions& options);

// One function a family; see families/.
ModelGraph BuildLlama(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildQwen2(const HubConfig& config, const GraphOptions& options);

}  // namespace lazytrain
