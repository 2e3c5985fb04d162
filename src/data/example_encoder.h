// What building documents needs of a tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace lazytrain {

// Safe to call from several threads at once.
class ExampleEncoder {
 public:
  virtual ~ExampleEncoder() = default;
  // `add_special`: with the tokens that the tokenizer's post-processor puts around a text.
  virtual std::vector<int32_t> Encode(std::string_view text, bool add_special) const = 0;
  // The begin-of-text token, if the post-processor adds one.
  virtual std::optional<int32_t> bos() const = 0;
  // The end-of-text token, if the tokenizer has one.
  virtual std::optional<int32_t> eos() const = 0;
};

}  // namespace lazytrain
