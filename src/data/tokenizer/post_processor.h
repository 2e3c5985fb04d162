// The "post_processor" of tokenizer.json: puts special tokens around the tokens of a text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"

namespace lazytrain {

// What comes before and behind the tokens of a text.
struct SpecialFrame {
  std::vector<int32_t> before;
  std::vector<int32_t> after;
};

// Only a single text is ever framed, so templates for pairs are not read. Throws Error beginning
// with `place` for a component that is unknown or wrong.
SpecialFrame ParsePostProcessor(const Json& json, const std::string& place);

}  // namespace lazytrain
