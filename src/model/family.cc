#include "model/family.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "core/error.h"

namespace lazytrain {

std::span<const Family> Families() {
  static constexpr std::array kFamilies = {
      Family{"baichuan", BuildBaichuan, Reference::kByHand},
      Family{"chatglm", BuildChatGlm, Reference::kByHand},
      Family{"deepseek_v2", BuildDeepSeekV2, Reference::kPlanOnly},
      Family{"deepseek_v3", BuildDeepSeekV3, Reference::kPlanOnly},
      Family{"gemma2", BuildGemma2, Reference::kPlanOnly},
      Family{"gemma3", BuildGemma3, Reference::kPlanOnly},
      Family{"gemma3_text", BuildGemma3, Reference::kPlanOnly},
      Family{"glm", BuildGlm},
      Family{"glm4", BuildGlm4},
      Family{"glm4_moe", BuildGlm4Moe, Reference::kPlanOnly},
      Family{"glm4_moe_lite", BuildDeepSeekV3, Reference::kPlanOnly},
      Family{"gpt_oss", BuildGptOss, Reference::kPlanOnly},
      Family{"internlm2", BuildInternLm2, Reference::kByHand},
      Family{"internvl_chat", BuildInternVl, Reference::kPlanOnly},
      Family{"llama", BuildLlama},
      Family{"llama4", BuildLlama4, Reference::kPlanOnly},
      Family{"llama4_text", BuildLlama4, Reference::kPlanOnly},
      Family{"llava", BuildLlava, Reference::kPlanOnly},
      Family{"minicpmv", BuildMiniCpmV, Reference::kPlanOnly},
      Family{"mistral", BuildMistral},
      Family{"mixtral", BuildMixtral, Reference::kPlanOnly},
      Family{"olmo2", BuildOlmo2},
      Family{"olmo3", BuildOlmo3},
      Family{"phi3", BuildPhi3},
      Family{"qwen2", BuildQwen2},
      Family{"qwen2_5_vl", BuildQwen25Vl, Reference::kPlanOnly},
      Family{"qwen3", BuildQwen3},
      Family{"qwen3_5", BuildQwen35Dense, Reference::kPlanOnly},
      Family{"qwen3_5_moe", BuildQwen35Moe, Reference::kPlanOnly},
      Family{"qwen3_5_moe_text", BuildQwen35Moe, Reference::kPlanOnly},
      Family{"qwen3_5_text", BuildQwen35Dense, Reference::kPlanOnly},
      Family{"qwen3_moe", BuildQwen3Moe, Reference::kPlanOnly},
      Family{"qwen3_next", BuildQwen3Next, Reference::kPlanOnly},
      Family{"qwen3_vl", BuildQwen3Vl, Reference::kPlanOnly},
      Family{"smollm3", BuildSmolLm3},
  };
  return kFamilies;
}

ModelGraph BuildModelGraph(const HubConfig& config, const GraphOptions& options) {
  const std::string type = config.String("model_type");
  std::vector<std::string_view> known;
  for (const Family& family : Families()) {
    if (family.model_type == type) return family.build(config, options);
    known.push_back(family.model_type);
  }
  throw RunError("{}: the architecture '{}' is not supported; these are: {}", config.place(), type,
                 fmt::join(known, ", "));
}

}  // namespace lazytrain
