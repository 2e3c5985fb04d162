#include "data/tokenizer/utf8.h"

#include <cstring>

namespace lazytrain {
namespace {

// The length of the well-formed sequence at the front, or minus the length of the broken part
// (Unicode 16, table 3-7).
int SequenceLength(std::string_view text) {
  const auto at = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned lead = at(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return -1;
  const int length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // No overlong forms, no surrogates, nothing above U+10FFFF: all told by the second byte.
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (at(1) < low || at(1) > high) return -1;
  for (int i = 2; i < length; ++i) {
    if (at(i) < 0x80 || at(i) > 0xBF) return -i;
  }
  return length;
}

// The bytes at the front that are ASCII, found eight at a time.
size_t AsciiPrefix(std::string_view text) {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + i, 8);
    if ((word & 0x8080808080808080U) != 0) break;
  }
  while (i < text.size() && static_cast<unsigned char>(text[i]) < 0x80) ++i;
  return i;
}

}  // namespace

void AppendUtf8(char32_t code, std::string& text) {
  const auto add = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | code >> 6);
    add(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3F));
    add(0x80 | (code & 0x3F));
  } else {
    add(0xF0 | code >> 18);
    add(0x80 | (code >> 12 & 0x3F));
    add(0x80 | (code >> 6 & 0x3F));
    add(0x80 | (code & 0x3F));
  }
}

std::u32string ToCodePoints(std::string_view text) {
  std::u32string codes;
  codes.reserve(text.size());
  for (size_t i = 0; i < text.size();) codes.push_back(NextCodePoint(text, i));
  return codes;
}

std::string ToUtf8(std::u32string_view codes) {
  std::string text;
  text.reserve(codes.size());
  for (const char32_t code : codes) AppendUtf8(code, text);
  return text;
}

bool IsAscii(std::string_view text) { return AsciiPrefix(text) == text.size(); }

bool IsValidUtf8(std::string_view text) {
  while (true) {
    text.remove_prefix(AsciiPrefix(text));
    if (text.empty()) return true;
    const int length = SequenceLength(text);
    if (length < 0) return false;
    text.remove_prefix(static_cast<size_t>(length));
  }
}

std::string RepairUtf8(std::string_view text, int64_t& replaced) {
  std::string repaired;
  repaired.reserve(text.size());
  while (!text.empty()) {
    const int length = SequenceLength(text);
    if (length > 0) {
      repaired.append(text.substr(0, static_cast<size_t>(length)));
    } else {
      repaired.append("\xEF\xBF\xBD");
      ++replaced;
    }
    text.remove_prefix(static_cast<size_t>(length > 0 ? length : -length));
  }
  return repaired;
}

}  // namespace lazytrain
