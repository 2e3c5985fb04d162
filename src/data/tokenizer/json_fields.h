// Typed access to the fields of one JSON object, with errors that name the place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/json.h"

namespace lazytrain {

class JsonFields {
 public:
  // `place` is what messages begin with, as "dir/tokenizer.json: decoder". Throws if `json` is not
  // an object. Both must outlive this.
  JsonFields(const Json& json, std::string place);

  const std::string& place() const { return place_; }
  // Null counts as missing, everywhere.
  const Json* Find(std::string_view key) const;
  const Json& Required(std::string_view key) const;
  const Json& Array(std::string_view key) const;

  std::string String(std::string_view key) const;
  std::string String(std::string_view key, std::string_view fallback) const;
  bool Bool(std::string_view key) const;
  bool Bool(std::string_view key, bool fallback) const;
  int64_t Integer(std::string_view key) const;
  // A string of exactly one code point.
  char32_t Character(std::string_view key) const;
  // The "type" of a component.
  std::string Type() const { return String("type"); }

  // "<place>: '<key>' is not <wanted>; ..."
  [[noreturn]] void Refuse(std::string_view key, std::string_view wanted) const;
  // The component's type is none that this program knows.
  [[noreturn]] void RefuseType(std::string_view kind, std::string_view known) const;

 private:
  const Json& json_;
  std::string place_;
};

}  // namespace lazytrain
