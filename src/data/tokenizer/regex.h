// Regular expressions as tokenizer files write them: Oniguruma's Ruby syntax, run by PCRE2.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/text_pattern.h"

namespace lazytrain {

// The pattern in PCRE2's syntax, with the meaning it has for Oniguruma 6.9 on UTF-8: its character
// classes follow Unicode 16, (?m) is "dot matches newline", \h is a hexadecimal digit, an interval
// is never possessive. Throws Error, beginning with `place`, for what cannot be translated.
std::string TranslateRegex(std::string_view pattern, const std::string& place);

// Thread-safe.
class Regex {
 public:
  // Throws Error if the pattern is wrong.
  Regex(const std::string& pattern, const std::string& place);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // All matches in valid UTF-8, from left to right; no empty one right behind the match before.
  // An empty text has none.
  // Throws Error if the pattern needs too many steps on this text.
  std::vector<TextSpan> FindAll(std::string_view text) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace lazytrain
