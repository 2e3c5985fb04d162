// The "normalizer" of tokenizer.json: rewrites text before it is cut.
#pragma once

#include <memory>
#include <string>

#include "core/json.h"

namespace lazytrain {

// Thread-safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // The text is valid UTF-8 before and after.
  virtual void Apply(std::string& text) const = 0;
};

// Throws Error beginning with `place` for a component that is unknown or wrong.
std::unique_ptr<Normalizer> ParseNormalizer(const Json& json, const std::string& place);

}  // namespace lazytrain
