#include "data/tokenizer/split_behavior.h"

#include <algorithm>
#include <string>
#include <utility>

namespace lazytrain {
namespace {

struct Part {
  TextSpan span;
  bool is_match;
};

std::vector<Part> PartsOf(std::string_view text, const std::vector<TextSpan>& matches,
                          bool invert) {
  std::vector<Part> parts;
  size_t done = 0;
  for (const TextSpan& match : matches) {
    if (done != match.begin) parts.push_back({{done, match.begin}, invert});
    parts.push_back({match, !invert});
    done = match.end;
  }
  if (done != text.size()) parts.push_back({{done, text.size()}, invert});
  return parts;
}

// Joins each part to the one before it where join(part, previous part is a match) says so.
template <typename Join>
std::vector<Part> Merge(const std::vector<Part>& parts, Join join) {
  std::vector<Part> merged;
  bool previous = false;
  for (const Part& part : parts) {
    if (!merged.empty() && join(part.is_match, previous)) {
      merged.back().span.begin = std::min(merged.back().span.begin, part.span.begin);
      merged.back().span.end = std::max(merged.back().span.end, part.span.end);
    } else {
      merged.push_back(part);
    }
    previous = part.is_match;
  }
  return merged;
}

}  // namespace

SplitBehavior ParseSplitBehavior(const JsonFields& fields, std::string_view key) {
  constexpr std::pair<const char*, SplitBehavior> kNames[] = {
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous}};
  const std::string name = fields.String(key);
  for (const auto& [known, behavior] : kNames) {
    if (name == known) return behavior;
  }
  fields.Refuse(key, "Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

void SplitAt(std::string_view text, const std::vector<TextSpan>& matches, bool invert,
             SplitBehavior behavior, std::vector<std::string_view>& pieces) {
  std::vector<Part> parts = PartsOf(text, matches, invert);
  const auto match_after_other = [](bool is_match, bool previous) { return is_match && !previous; };
  if (behavior == SplitBehavior::kContiguous) {
    parts = Merge(parts, [](bool is_match, bool previous) { return is_match == previous; });
  } else if (behavior == SplitBehavior::kMergedWithPrevious) {
    parts = Merge(parts, match_after_other);
  } else if (behavior == SplitBehavior::kMergedWithNext) {
    std::reverse(parts.begin(), parts.end());
    parts = Merge(parts, match_after_other);
    std::reverse(parts.begin(), parts.end());
  }
  for (const Part& part : parts) {
    if (behavior == SplitBehavior::kRemoved && part.is_match) continue;
    pieces.push_back(text.substr(part.span.begin, part.span.end - part.span.begin));
  }
}

}  // namespace lazytrain
