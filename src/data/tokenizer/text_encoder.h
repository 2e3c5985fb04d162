// What every kind of tokenizer can do; tokenizer.h hides which kind a file holds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lazytrain {

// Thread-safe. Texts are valid UTF-8.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  virtual std::vector<int32_t> Encode(std::string_view text, bool add_special_tokens) const = 0;
  virtual std::string Decode(std::span<const int32_t> ids, bool skip_special_tokens) const = 0;
  virtual std::vector<std::string> Pieces(std::string_view text) const = 0;
  virtual std::optional<int32_t> TokenToId(std::string_view token) const = 0;
  virtual std::optional<std::string> IdToToken(int32_t id) const = 0;
  virtual bool IsSpecial(int32_t id) const = 0;
  virtual int64_t vocab_size() const = 0;
};

}  // namespace lazytrain
