// Settings as they are written, before anyone knows what their keys mean.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lazytrain {

struct Scalar {
  std::string text;
  bool quoted = false;  // so it is a string, whatever it looks like
};

struct Setting {
  enum class Kind { kScalar, kList, kEmpty, kMapping };  // kEmpty: a key without a value, or null

  std::string key;       // "training.batch_size"
  std::string given_as;  // another spelling that means this key; empty: it was the key itself
  std::string place;     // "run.yaml:12"
  Kind kind = Kind::kEmpty;
  std::vector<Scalar> items = {};  // one of a scalar, all of a list

  // "run.yaml:12: training.batch_size", how messages about it begin.
  std::string Where() const;
};

// The settings of a YAML text, in order: keys of nested mappings are joined by dots, two levels at
// most (deeper ones are of kind kMapping). `file` stands in places. Throws Error (kUsage)
// "<file>:<line>: ..." for what is no mapping of plain keys, repeated sections, malformed YAML,
// tabs as indentation, control characters, and nesting that no configuration has.
std::vector<Setting> ReadSettings(std::string_view text, std::string_view file);

// "training.batch_size=8", the part behind the first '=' as YAML; nothing there is an empty string.
Setting ReadOverride(std::string_view text, std::string_view place);

// A user's text for a message: one line, not endless.
std::string Shown(std::string_view text);

}  // namespace lazytrain
