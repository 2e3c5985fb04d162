#include "model/family.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "core/error.h"

namespace lazytrain {

std::span<const Family> Families() {
  static constexpr std::array kFamilies = {
      Family{"llama", BuildLlama},
      Family{"qwen2", BuildQwen2},
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
