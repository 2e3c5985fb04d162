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

// What the family's numbers are compared with.
enum class Reference {
  kTransformers,  // reference cases made with Hugging Face transformers
  kByHand,        // no reference at hand: small cases worked by hand
  kPlanOnly,      // planned and estimated, not run: some ops have no kernels
};

struct Family {
  std::string_view model_type;  // as config.json spells it
  ModelGraph (*build)(const HubConfig& config, const GraphOptions& options);
  Reference reference = Reference::kTransformers;
};

std::span<const Family> Families();

// The graph of the model that `config` describes. Throws Error for an unknown model_type (naming
// the supported ones) and for values that cannot be.
ModelGraph BuildModelGraph(const HubConfig& config, const GraphOptions& options);

// One function a family, in families/.
ModelGraph BuildBaichuan(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildChatGlm(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildDeepSeekV2(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildDeepSeekV3(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildGemma2(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildGemma3(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildGlm(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildGlm4(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildGlm4Moe(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildGptOss(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildInternLm2(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildInternVl(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildLlama(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildLlama4(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildLlava(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildMiniCpmV(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildMistral(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildMixtral(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildOlmo2(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildOlmo3(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildPhi3(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildQwen2(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildQwen25Vl(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildQwen3(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildQwen35Dense(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildQwen35Moe(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildQwen3Moe(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildQwen3Next(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildQwen3Vl(const HubConfig& config, const GraphOptions& options);
ModelGraph BuildSmolLm3(const HubConfig& config, const GraphOptions& options);

}  // namespace lazytrain
