// The table of configuration keys: the only place that knows them.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "train/config/config.h"

namespace lazytrain {

template <typename T>
using Access = T& (*)(Config&);

// Where a value is stored; the alternative in use is its type.
using Field = std::variant<Access<std::string>, Access<std::vector<std::string>>, Access<bool>,
                           Access<Auto<bool>>, Access<int64_t>, Access<Auto<int64_t>>,
                           Access<std::vector<int64_t>>, Access<double>, Access<Auto<double>>,
                           Access<std::variant<int64_t, double>>>;

// At<&Config::training, &TrainingSettings::seed>(): the field behind training.seed.
template <auto section, auto member>
Field At() {
  using Value = std::remove_reference_t<decltype(std::declval<Config&>().*section.*member)>;
  const Access<Value> access = [](Config& config) -> Value& { return config.*section.*member; };
  return access;
}

// Of a number, or of each in a list.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;   // low itself is outside
  bool high_open = false;  // high itself is outside

  bool Contains(double value) const {
    return (low_open ? value > low : value >= low) && (high_open ? value < high : value <= high);
  }
};

// What of a key is not built yet. Values are compared as text, as FormatValue writes them.
struct Availability {
  std::vector<std::string_view> built = {};      // when not empty, only these values can be used
  std::vector<std::string_view> not_built = {};  // these cannot
  std::string_view reason = {};                  // "the planner is not built yet"
  std::string_view meanwhile = {};  // stands for the default where that is not built; empty: it is
  bool without_effect = false;      // everything can be given, and does nothing

  bool Allows(std::string_view text) const;
};

struct Option {
  std::string_view key;
  Field field;
  std::string_view default_text;             // as YAML
  std::string_view help;                     // one line, lower case, no full stop
  std::vector<std::string_view> words = {};  // of a string: what it may be; empty: anything
  // What else a string may be ("a schedule file (*.json)"), and how it is recognised.
  std::string_view otherwise = {};
  bool (*is_otherwise)(std::string_view) = nullptr;
  Range range = {};
  Availability availability = {};

  std::string_view section() const { return key.substr(0, key.find('.')); }
  std::string_view leaf() const { return key.substr(key.find('.') + 1); }
  // What the field holds before a user says anything.
  std::string_view initial() const {
    return availability.meanwhile.empty() ? default_text : availability.meanwhile;
  }
};

// In the order of the reference: by section.
const std::vector<Option>& Options();

// Null: there is no such key.
const Option* FindOption(std::string_view key);

struct Section {
  std::string_view name;
  std::string_view help;
};
std::span<const Section> Sections();

}  // namespace lazytrain
