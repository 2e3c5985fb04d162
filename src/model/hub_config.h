// config.json of a model folder, read with types and places.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/file.h"
#include "core/json.h"

namespace lazytrain {

// A JSON object of the file. Every error names the file and the key.
class HubConfig {
 public:
  // Reads <folder>/config.json.
  static HubConfig FromFolder(const Path& folder);
  HubConfig(Json json, std::string place) : json_(std::move(json)), place_(std::move(place)) {}

  // This object with `defaults` where a key is missing (a null stays: it means "none").
  HubConfig WithDefaults(const Json& defaults) const;

  // Present and not null.
  bool Has(std::string_view key) const;
  // Required: throws when missing or of another type.
  int64_t Int(std::string_view key) const;
  int64_t PositiveInt(std::string_view key) const;
  std::string String(std::string_view key) const;
  // Optional: `fallback` when missing or null.
  int64_t PositiveIntOr(std::string_view key, int64_t fallback) const;
  double NumberOr(std::string_view key, double fallback) const;
  double Number(std::string_view key) const;
  bool BoolOr(std::string_view key, bool fallback) const;
  std::string StringOr(std::string_view key, std::string fallback) const;
  std::optional<HubConfig> Object(std::string_view key) const;

  const Json& json() const { return json_; }
  const std::string& place() const { return place_; }

 private:
  const Json* Find(std::string_view key) const;
  const Json& Require(std::string_view key) const;

  Json json_;
  std::string place_;
};

}  // namespace lazytrain
