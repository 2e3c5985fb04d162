// Character classes of regular expressions, as sets of code points and in PCRE2's syntax.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lazytrain {

// A set of characters that an expression names, as \s or \p{Lu}.
struct CharacterSet {
  // What to write between [ and ] for it. Empty: nothing but its ranges says it.
  std::string text;
  std::function<bool(char32_t)> contains;  // null: only PCRE2 knows
};

// "\x{AC00}".
std::string EscapeCode(char32_t code);
std::string EscapeRange(char32_t first, char32_t last);
// The set as ranges, as `text` would be.
std::string RangesOf(const std::function<bool(char32_t)>& contains);

// The class of \s, \d, \w or \h, which is as for Oniguruma.
CharacterSet EscapeClass(char lower_case_letter);
// The class of \p{name}; none if there is no such property.
std::optional<CharacterSet> PropertyClass(std::string_view name);
// The class of [:name:], which may be another.
std::optional<CharacterSet> BracketClass(std::string_view name);

}  // namespace lazytrain
