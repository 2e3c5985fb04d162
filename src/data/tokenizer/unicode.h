// Properties of characters as Unicode 16 has them, which is what the reference's regular
// expressions know; where the reference uses an older or newer table for something, the function
// says so.
#pragma once

#include <cstdint>
#include <string>

namespace lazytrain {

// General_Category. The order is that of the generated table.
enum class Category : uint8_t {
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,
  kMn,
  kMc,
  kMe,
  kNd,
  kNl,
  kNo,
  kPc,
  kPd,
  kPs,
  kPe,
  kPi,
  kPf,
  kPo,
  kSm,
  kSc,
  kSk,
  kSo,
  kZs,
  kZl,
  kZp,
  kCc,
  kCf,
  kCo,
  kCs,
  kCn,
};

// A set of categories, for tests of several at once.
using CategorySet = uint32_t;
constexpr CategorySet SetOf(Category category) { return 1U << static_cast<unsigned>(category); }
constexpr CategorySet kLetters = 0x1F;
constexpr CategorySet kMarks = 0x7U << 5;
constexpr CategorySet kNumbers = 0x7U << 8;
constexpr CategorySet kPunctuation = 0x7FU << 11;
constexpr CategorySet kSymbols = 0xFU << 18;
constexpr CategorySet kSeparators = 0x7U << 22;
constexpr CategorySet kOther = 0x1FU << 25;

Category CategoryOf(char32_t code);
inline bool IsIn(char32_t code, CategorySet set) { return (SetOf(CategoryOf(code)) & set) != 0; }

// White_Space: the same in every version since Unicode 6.3.
inline bool IsWhiteSpace(char32_t code) {
  if (code < 0x85) return code == 0x20 || (code >= 0x09 && code <= 0x0D);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

// \w of Unicode Technical Standard 18: alphabetic characters, marks, decimal digits, connectors and
// the two joiners.
bool IsWordCharacter(char32_t code);

// A number of any kind (Nd, Nl, No), as Unicode 17.
bool IsNumeric(char32_t code);

// ASCII punctuation and symbols, and the punctuation of Unicode 8.
bool IsPunctuation(char32_t code);

// A mark (Mn, Mc, Me), as Unicode 9.
bool IsAccent(char32_t code);

// A mark without width (Mn), as Unicode 8.
bool IsNonspacingMark(char32_t code);

// A control, format or private-use character (Cc, Cf, Co), as Unicode 8.
bool IsControl(char32_t code);

// The lower case of the character, as Unicode 17, appended in one or two code points.
void AppendLowercase(char32_t code, std::u32string& text);

}  // namespace lazytrain
