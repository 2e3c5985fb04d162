#include "plan/numerics_key.h"

#include "core/error.h"

namespace lazytrain {

Json NumericsKey::ToJson() const {
  Json json = {{"device", device},
               {"libraries", libraries},
               {"ops", ops},
               {"micro_batch_tokens", micro_batch_tokens},
               {"gradients", gradients},
               {"clip", clip},
               {"optimizer", optimizer}};
  if (chunk_tokens > 0) json["chunk_tokens"] = chunk_tokens;
  if (!passes.empty()) json["passes"] = passes;
  return json;
}

NumericsKey NumericsKey::FromJson(const Json& json, const std::string& place) {
  try {
    NumericsKey key;
    key.device = json.at("device").get<std::string>();
    key.libraries = json.at("libraries").get<std::string>();
    key.ops = json.at("ops").get<std::string>();
    key.micro_batch_tokens = json.at("micro_batch_tokens").get<int64_t>();
    key.gradients = json.at("gradients").get<std::string>();
    key.clip = json.at("clip").get<std::string>();
    key.optimizer = json.at("optimizer").get<std::string>();
    if (json.contains("chunk_tokens")) key.chunk_tokens = json.at("chunk_tokens").get<int64_t>();
    if (json.contains("passes")) key.passes = json.at("passes").get<std::vector<int64_t>>();
    return key;
  } catch (const Json::exception& error) {
    throw RunError("{}: numerics_key: {}", place, error.what());
  }
}

std::vector<std::string> NumericsKey::Differences(const NumericsKey& other) const {
  const Json mine = ToJson();
  const Json theirs = other.ToJson();
  std::vector<std::string> names;
  for (const auto& [name, value] : mine.items()) {
    if (!theirs.contains(name) || theirs.at(name) != value) names.push_back(name);
  }
  for (const auto& [name, value] : theirs.items()) {
    if (!mine.contains(name)) names.push_back(name);
  }
  return names;
}

}  // namespace lazytrain
