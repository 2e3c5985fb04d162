#include "model/hub_config.h"

#include "core/error.h"

namespace lazytrain {
namespace {

[[noreturn]] void WrongType(const std::string& place, std::string_view key, std::string_view want,
                            const Json& got) {
  throw RunError("{}: '{}' is {}; it has to be {}", place, key, got.dump(), want);
}

}  // namespace

HubConfig HubConfig::FromFolder(const Path& folder) {
  const Path path = folder / "config.json";
  if (!std::filesystem::exists(folder)) {
    throw RunError(
        "{}: there is no such folder; give the folder of a model (config.json, "
        "*.safetensors, tokenizer.json)",
        folder.string());
  }
  if (!std::filesystem::exists(path)) {
    throw RunError("{}: no config.json in this folder; give the folder of a hub model",
                   folder.string());
  }
  Json json = ReadJsonFile(path);
  if (!json.is_object()) throw RunError("{}: is not a JSON object", path.string());
  return HubConfig(std::move(json), path.string());
}

HubConfig HubConfig::WithDefaults(const Json& defaults) const {
  Json json = json_;
  for (const auto& [key, value] : defaults.items()) {
    if (!json.contains(key)) json[key] = value;
  }
  return HubConfig(std::move(json), place_);
}

const Json* HubConfig::Find(std::string_view key) const {
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

const Json& HubConfig::Require(std::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) throw RunError("{}: '{}' is missing", place_, key);
  return *value;
}

bool HubConfig::Has(std::string_view key) const { return Find(key) != nullptr; }

int64_t HubConfig::Int(std::string_view key) const {
  const Json& value = Require(key);
  if (!value.is_number_integer()) WrongType(place_, key, "a whole number", value);
  return value.get<int64_t>();
}

int64_t HubConfig::PositiveInt(std::string_view key) const {
  const int64_t value = Int(key);
  constexpr int64_t kLargest = INT32_MAX;  // token ids, positions and sizes of products
  if (value < 1 || value > kLargest) {
    WrongType(place_, key, fmt::format("from 1 to {}", kLargest), Require(key));
  }
  return value;
}

int64_t HubConfig::PositiveIntOr(std::string_view key, int64_t fallback) const {
  return Has(key) ? PositiveInt(key) : fallback;
}

double HubConfig::Number(std::string_view key) const {
  const Json& value = Require(key);
  if (!value.is_number()) WrongType(place_, key, "a number", value);
  return value.get<double>();
}

double HubConfig::NumberOr(std::string_view key, double fallback) const {
  return Has(key) ? Number(key) : fallback;
}

bool HubConfig::BoolOr(std::string_view key, bool fallback) const {
  const Json* value = Find(key);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) WrongType(place_, key, "true or false", *value);
  return value->get<bool>();
}

std::string HubConfig::String(std::string_view key) const {
  const Json& value = Require(key);
  if (!value.is_string()) WrongType(place_, key, "a string", value);
  return value.get<std::string>();
}

std::string HubConfig::StringOr(std::string_view key, std::string fallback) const {
  return Has(key) ? String(key) : std::move(fallback);
}

std::optional<HubConfig> HubConfig::Object(std::string_view key) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) WrongType(place_, key, "an object", *value);
  return HubConfig(*value, place_ + ": " + std::string(key));
}

}  // namespace lazytrain
