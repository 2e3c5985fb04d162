// What Split and Replace look for: a literal or a regular expression.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace lazytrain {

struct TextSpan {
  size_t begin;
  size_t end;
};

// Thread-safe.
class TextPattern {
 public:
  virtual ~TextPattern() = default;
  // All matches from left to right, none overlapping. An empty literal matches nowhere; a regular
  // expression may match empty spans, but none right behind the match before.
  virtual std::vector<TextSpan> FindAll(std::string_view text) const = 0;
  // The text with `content` in place of every match.
  std::string Replace(std::string_view text, std::string_view content) const;
};

// Reads {"String": ...} or {"Regex": ...}; `place` begins the messages.
std::unique_ptr<TextPattern> ParseTextPattern(const Json& json, const std::string& place);

}  // namespace lazytrain
