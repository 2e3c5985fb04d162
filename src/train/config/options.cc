#include "train/config/options.h"

#include <algorithm>
#include <array>

namespace lazytrain {

bool Availability::Allows(std::string_view text) const {
  const auto has = [text](const std::vector<std::string_view>& texts) {
    return std::find(texts.begin(), texts.end(), text) != texts.end();
  };
  return (built.empty() || has(built)) && !has(not_built);
}

const Option* FindOption(std::string_view key) {
  const auto& options = Options();
  const auto it = std::find_if(options.begin(), options.end(),
                               [key](const Option& option) { return option.key == key; });
  return it == options.end() ? nullptr : &*it;
}

std::span<const Section> Sections() {
  static constexpr std::array<Section, 8> kSections = {{
      {"model", "What is trained."},
      {"dataset", "What it is trained on."},
      {"training", "How long, and by which rule."},
      {"optimizer", "AdamW and how its numbers are stored."},
      {"memory", "Budgets, and the schedule that keeps them."},
      {"hardware", "What the planner believes of this machine, in GB/s and TFLOP/s."},
      {"eval", "Evaluation during training."},
      {"logging", "What is written down."},
  }};
  return kSections;
}

}  // namespace lazytrain
