// The "decoder" of tokenizer.json: joins tokens to text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/json.h"

namespace lazytrain {

// Thread-safe.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // Rewrites the tokens; the text is what they are in a row.
  virtual void Apply(std::vector<std::string>& tokens) const = 0;
};

// Throws Error beginning with `place` for a component that is unknown or wrong.
std::unique_ptr<Decoder> ParseDecoder(const Json& json, const std::string& place);

}  // namespace lazytrain
