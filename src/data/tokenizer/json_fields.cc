#include "data/tokenizer/json_fields.h"

#include "core/error.h"
#include "data/tokenizer/utf8.h"

namespace lazytrain {

JsonFields::JsonFields(const Json& json, std::string place)
    : json_(json), place_(std::move(place)) {
  if (!json_.is_object()) {
    throw RunError("{}: expected a JSON object, found {}; use an intact file", place_,
                   json_.type_name());
  }
}

const Json* JsonFields::Find(std::string_view key) const {
  const auto found = json_.find(std::string(key));
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

const Json& JsonFields::Required(std::string_view key) const {
  const Json* found = Find(key);
  if (found == nullptr) {
    throw RunError("{}: the field '{}' is missing; use an intact file", place_, key);
  }
  return *found;
}

void JsonFields::Refuse(std::string_view key, std::string_view wanted) const {
  throw RunError("{}: '{}' is not {}; use an intact file", place_, key, wanted);
}

void JsonFields::RefuseType(std::string_view kind, std::string_view known) const {
  throw RunError("{}: the {} '{}' is not supported (known: {}); use a tokenizer made of these",
                 place_, kind, Type(), known);
}

const Json& JsonFields::Array(std::string_view key) const {
  const Json& value = Required(key);
  if (!value.is_array()) Refuse(key, "an array");
  return value;
}

std::string JsonFields::String(std::string_view key) const {
  const Json& value = Required(key);
  if (!value.is_string()) Refuse(key, "a string");
  return value.get<std::string>();
}

std::string JsonFields::String(std::string_view key, std::string_view fallback) const {
  return Find(key) == nullptr ? std::string(fallback) : String(key);
}

bool JsonFields::Bool(std::string_view key) const {
  const Json& value = Required(key);
  if (!value.is_boolean()) Refuse(key, "true or false");
  return value.get<bool>();
}

bool JsonFields::Bool(std::string_view key, bool fallback) const {
  return Find(key) == nullptr ? fallback : Bool(key);
}

int64_t JsonFields::Integer(std::string_view key) const {
  const Json& value = Required(key);
  if (!value.is_number_integer()) Refuse(key, "a whole number");
  return value.get<int64_t>();
}

char32_t JsonFields::Character(std::string_view key) const {
  const std::u32string codes = ToCodePoints(String(key));
  if (codes.size() != 1) Refuse(key, "a single character");
  return codes[0];
}

}  // namespace lazytrain
