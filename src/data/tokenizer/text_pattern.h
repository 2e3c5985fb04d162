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
  // All matches from left to right, none overlapping. Some may be empty, but none of these lies
  // right behind the match before.
  virtual std::vector<TextSpan> FindAll(std::string_view text) const = 0;
  // The text with `content` in place of every match.
  std::string Replace(std::string_view text, std::string_view content) const;
};

// Where an empty literal matches: the reference's Split takes it for none, Replace for the empty
// regular expression.
enum class EmptyLiteral { kNowhere, kEverywhere };

// Reads {"String": ...} or {"Regex": ...}; `place` begins the messages.
std::unique_ptr<TextPattern> ParseTextPattern(const Json& json, const std::string& place,
                                              EmptyLiteral empty);

}  // namespace lazytrain
