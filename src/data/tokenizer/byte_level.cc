#include "data/tokenizer/byte_level.h"

#include "data/tokenizer/utf8.h"

namespace lazytrain {
namespace {

constexpr bool IsPrintable(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char32_t, 256> MakeAlphabet() {
  std::array<char32_t, 256> alphabet{};
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    alphabet[static_cast<size_t>(byte)] = IsPrintable(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return alphabet;
}

constexpr std::array<char32_t, 256> kAlphabet = MakeAlphabet();

// The byte of each character below U+0144, or -1.
constexpr std::array<int, 0x144> MakeBytes() {
  std::array<int, 0x144> bytes{};
  for (int& byte : bytes) byte = -1;
  for (size_t byte = 0; byte < 256; ++byte) bytes[kAlphabet[byte]] = static_cast<int>(byte);
  return bytes;
}

constexpr std::array<int, 0x144> kBytes = MakeBytes();

}  // namespace

const std::array<char32_t, 256>& ByteAlphabet() { return kAlphabet; }

std::optional<uint8_t> ByteOfCharacter(char32_t code) {
  if (code >= kBytes.size() || kBytes[code] < 0) return std::nullopt;
  return static_cast<uint8_t>(kBytes[code]);
}

void AppendAlphabet(std::string_view bytes, std::string& text) {
  for (const char c : bytes) AppendUtf8(kAlphabet[static_cast<unsigned char>(c)], text);
}

std::string BytesToAlphabet(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() + bytes.size() / 2);
  AppendAlphabet(bytes, text);
  return text;
}

}  // namespace lazytrain
