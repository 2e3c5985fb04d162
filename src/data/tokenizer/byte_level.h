// The byte alphabet of GPT-2: one printable character for every byte. Printable Latin-1 bytes stand
// for themselves, the other 68 are U+0100, U+0101, ... in order, so that a space is U+0120.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lazytrain {

// The character of each byte.
const std::array<char32_t, 256>& ByteAlphabet();
std::optional<uint8_t> ByteOfCharacter(char32_t code);
// Every byte of the text as its character, in UTF-8.
std::string BytesToAlphabet(std::string_view bytes);
void AppendAlphabet(std::string_view bytes, std::string& text);

}  // namespace lazytrain
