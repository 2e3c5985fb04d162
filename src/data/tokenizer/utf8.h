// UTF-8: code points in and out, and the repair of broken text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lazytrain {

// Bytes of the sequence that begins with this lead byte, in valid UTF-8.
inline size_t Utf8Length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// Whether a character begins at this byte, in valid UTF-8.
inline bool IsUtf8Lead(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

// The code point at text[position], which is moved behind it. The text must be valid UTF-8.
inline char32_t NextCodePoint(std::string_view text, size_t& position) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[position + i]); };
  const char32_t lead = at(0);
  char32_t code = lead;
  const size_t length = Utf8Length(text[position]);
  if (length == 2) {
    code = (lead & 0x1F) << 6 | (at(1) & 0x3FU);
  } else if (length == 3) {
    code = (lead & 0x0F) << 12 | (at(1) & 0x3FU) << 6 | (at(2) & 0x3FU);
  } else if (length == 4) {
    code = (lead & 0x07) << 18 | (at(1) & 0x3FU) << 12 | (at(2) & 0x3FU) << 6 | (at(3) & 0x3FU);
  }
  position += length;
  return code;
}

// Where the code point before text[position] begins; position must be above 0.
inline size_t PreviousCodePoint(std::string_view text, size_t position) {
  do {
    --position;
  } while (position > 0 && !IsUtf8Lead(text[position]));
  return position;
}

void AppendUtf8(char32_t code, std::string& text);
std::u32string ToCodePoints(std::string_view text);
std::string ToUtf8(std::u32string_view codes);

bool IsAscii(std::string_view text);
bool IsValidUtf8(std::string_view text);

// Replaces every maximal broken part by U+FFFD, as Unicode 16, section 3.9 ("substitution of
// maximal subparts") recommends, and adds the number of replacements to `replaced`.
std::string RepairUtf8(std::string_view text, int64_t& replaced);

}  // namespace lazytrain
