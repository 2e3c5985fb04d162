// Cutting a text where a pattern matches.
#pragma once

#include <string_view>
#include <vector>

#include "data/tokenizer/json_fields.h"
#include "data/tokenizer/text_pattern.h"

namespace lazytrain {

// What becomes of the matches.
enum class SplitBehavior {
  kRemoved,             // they are dropped
  kIsolated,            // each is a piece
  kMergedWithPrevious,  // each ends the piece before it
  kMergedWithNext,      // each begins the piece behind it
  kContiguous,          // matches in a row are one piece
};

// Reads the names "Removed", "Isolated", ...
SplitBehavior ParseSplitBehavior(const JsonFields& fields, std::string_view key);

// Appends the pieces, some of which may be empty. `invert`: what is no match counts as one, and the
// other way about.
void SplitAt(std::string_view text, const std::vector<TextSpan>& matches, bool invert,
             SplitBehavior behavior, std::vector<std::string_view>& pieces);

}  // namespace lazytrain
