// Names of layers and units without their numbers.
#pragma once

#include <string>

namespace lazytrain {

// "layers.3.experts.7" and "layers.4.experts.0" are of one kind: "layers.*.experts.*".
inline std::string KindOf(const std::string& name) {
  std::string kind;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) {
      kind += c;
    } else if (kind.empty() || kind.back() != '*') {
      kind += '*';
    }
  }
  return kind;
}

}  // namespace lazytrain
