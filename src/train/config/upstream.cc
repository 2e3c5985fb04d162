#include "train/config/upstream.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "train/config/options.h"

namespace lazytrain {

std::span<const UpstreamKey> UpstreamKeys() {
  static constexpr std::array<UpstreamKey, 8> kKeys = {{
      {"eval_every", "eval.every"},
      {"fast_grad_clip", "optimizer.clip"},
      {"lazy_nvme_mode", "memory.nvme_mode"},
      {"nvme_activation_gb", "memory.nvme_gb"},
      {"lazy_nvme_prefetch_distance", ""},
      {"num_grad_slabs", ""},
      {"attn_implementation", ""},
      {"trust_remote_code", ""},
  }};
  return kKeys;
}

const std::vector<UpstreamOptimizer>& UpstreamOptimizers() {
  static const std::vector<UpstreamOptimizer> optimizers = {
      {"deepspeed_adam", {{"optimizer.moments", "fp32"}, {"optimizer.update", "host"}}},
      {"hybrid_adamw_8bit",
       {{"optimizer.moments", "8bit"}, {"optimizer.eight_bit_fraction", "0.02"}}},
      {"cpu_adamw_8bit", {{"optimizer.moments", "8bit"}, {"optimizer.update", "host"}}},
      {"paged_adamw_8bit", {{"optimizer.moments", "8bit"}}},
  };
  return optimizers;
}

bool UnderstandKey(Setting* setting, std::vector<std::string>* notes) {
  if (FindOption(setting->key) != nullptr) return true;
  const std::string name = setting->key.substr(setting->key.rfind('.') + 1);
  const auto keys = UpstreamKeys();
  const auto it = std::find_if(keys.begin(), keys.end(), [&name](const UpstreamKey& upstream) {
    return upstream.name == name;
  });
  if (it == keys.end()) return true;
  if (it->key.empty()) {
    notes->push_back(fmt::format("{}: is ignored; nothing here depends on it", setting->Where()));
    return false;
  }
  notes->push_back(fmt::format("{}: is taken as {}", setting->Where(), it->key));
  setting->given_as = setting->key;
  setting->key = it->key;
  // Upstream's switch chooses between two ways to the same norm; ours has one, and it is fast.
  const bool is_switch = name == "fast_grad_clip" && setting->kind == Setting::Kind::kScalar;
  if (is_switch && (setting->items[0].text == "true" || setting->items[0].text == "false")) {
    setting->items[0].text = "exact";
  }
  return true;
}

void UnderstandOptimizer(std::map<std::string, Setting>* settings,
                         std::vector<std::string>* notes) {
  const auto type = settings->find("optimizer.type");
  if (type == settings->end() || type->second.kind != Setting::Kind::kScalar) return;
  const std::string given = type->second.items[0].text;
  const auto& optimizers = UpstreamOptimizers();
  const auto it = std::find_if(optimizers.begin(), optimizers.end(),
                               [&given](const auto& upstream) { return upstream.name == given; });
  if (it == optimizers.end()) return;
  std::string parts;
  for (const auto& [key, text] : it->parts) {
    parts += fmt::format("{} {} {}", parts.empty() ? "" : ",", key, text);
    settings->try_emplace(std::string(key), Setting{.key = std::string(key),
                                                    .given_as = "optimizer.type " + given,
                                                    .place = type->second.place,
                                                    .kind = Setting::Kind::kScalar,
                                                    .items = {{std::string(text), false}}});
  }
  notes->push_back(fmt::format("{}: '{}' is taken as adamw with{}, where these are not given",
                               type->second.Where(), given, parts));
  type->second.items[0].text = "adamw";
}

}  // namespace lazytrain
