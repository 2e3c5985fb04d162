#include "data/tokenizer/regex_class.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <utility>

#include "data/tokenizer/unicode.h"
#include "data/tokenizer/unicode_data.h"

namespace lazytrain {
namespace {

constexpr char32_t kCodePoints = 0x110000;
constexpr const char* kSpace =
    "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}"
    "\\x{205F}\\x{3000}";
// Numbers that Oniguruma counts as word characters.
constexpr CodeRange kLatinNumbers[] = {{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}};
// Upper case that is not of the category Lu: Roman numerals and symbols.
constexpr CodeRange kOtherUppercase[] = {
    {0x2160, 0x216F}, {0x24B6, 0x24CF}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
// Han characters of Unicode 15 and 15.1.
constexpr const char* kNewHan = "\\x{2B739}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}";

constexpr const char* kCategoryNames[] = {
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cs", "Cn"};
constexpr std::pair<const char*, CategorySet> kGroups[] = {
    {"l", kLetters},
    {"letter", kLetters},
    {"m", kMarks},
    {"mark", kMarks},
    {"n", kNumbers},
    {"number", kNumbers},
    {"p", kPunctuation},
    {"punctuation", kPunctuation},
    {"s", kSymbols},
    {"symbol", kSymbols},
    {"z", kSeparators},
    {"separator", kSeparators},
    {"c", kOther},
    {"other", kOther},
    {"uppercaseletter", SetOf(Category::kLu)},
    {"lowercaseletter", SetOf(Category::kLl)},
    {"titlecaseletter", SetOf(Category::kLt)},
    {"modifierletter", SetOf(Category::kLm)},
    {"otherletter", SetOf(Category::kLo)},
    {"nonspacingmark", SetOf(Category::kMn)},
    {"spacingmark", SetOf(Category::kMc)},
    {"enclosingmark", SetOf(Category::kMe)},
    {"decimalnumber", SetOf(Category::kNd)},
    {"letternumber", SetOf(Category::kNl)},
    {"othernumber", SetOf(Category::kNo)},
    {"digit", SetOf(Category::kNd)},
    {"cntrl", SetOf(Category::kCc)},
    {"punct", kPunctuation}};

// The categories as PCRE2's table of Unicode 14 has them, and what has joined them since.
std::string CategoriesText(CategorySet set) {
  constexpr CategorySet kMn = SetOf(Category::kMn);
  constexpr CategorySet kMc = SetOf(Category::kMc);
  // What has left a category cannot be taken out of it.
  if ((set & SetOf(Category::kCn)) != 0 || ((set & kMn) != 0 && (set & kMc) == 0)) return {};
  std::string text;
  for (size_t i = 0; i < std::size(kCategoryNames); ++i) {
    if ((set >> i & 1) != 0) text += fmt::format("\\p{{{}}}", kCategoryNames[i]);
  }
  for (const CategoryRange& range : CategoriesSince14()) {
    if ((SetOf(range.category) & set) != 0) text += EscapeRange(range.first, range.last);
  }
  return text;
}

CharacterSet CategoriesClass(CategorySet set) {
  return {CategoriesText(set), [set](char32_t code) { return IsIn(code, set); }};
}

// Categories and ranges beside them.
CharacterSet MixedClass(CategorySet set, std::vector<std::span<const CodeRange>> extras) {
  std::string text = CategoriesText(set);
  for (const std::span<const CodeRange> ranges : extras) {
    for (const CodeRange& range : ranges) text += EscapeRange(range.first, range.last);
  }
  return {text, [set, extras = std::move(extras)](char32_t code) {
            return IsIn(code, set) || std::any_of(extras.begin(), extras.end(), [&](auto ranges) {
                     return Contains(ranges, code);
                   });
          }};
}

constexpr CategorySet kWord =
    kLetters | kMarks | SetOf(Category::kNd) | SetOf(Category::kNl) | SetOf(Category::kPc);

bool IsHexDigit(char32_t code) {
  return (code >= '0' && code <= '9') || (code >= 'a' && code <= 'f') ||
         (code >= 'A' && code <= 'F');
}

// Property names are compared without case, spaces, hyphens and underscores.
std::string Fold(std::string_view name) {
  std::string folded;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    folded.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  }
  return folded;
}

// Properties that are not made of categories. `name` is folded.
std::optional<CharacterSet> OtherProperty(const std::string& name) {
  constexpr CategorySet kAlphabetic = kLetters | SetOf(Category::kNl);
  constexpr CategorySet kInvisible =
      kSeparators | SetOf(Category::kCc) | SetOf(Category::kCs) | SetOf(Category::kCn);
  constexpr CategorySet kAll = (CategorySet{1} << 30) - 1;
  if (name == "space" || name == "whitespace") return EscapeClass('s');
  if (name == "word") return MixedClass(kWord, {AlphabeticSymbols()});
  if (name == "xdigit") return EscapeClass('h');
  if (name == "any") return CharacterSet{"\\x{0}-\\x{10FFFF}", [](char32_t) { return true; }};
  if (name == "ascii") return CharacterSet{"\\x{0}-\\x{7F}", [](char32_t c) { return c < 0x80; }};
  if (name == "blank") {
    return CharacterSet{"\\p{Zs}\\x{9}", [](char32_t code) {
                          return code == 9 || CategoryOf(code) == Category::kZs;
                        }};
  }
  if (name == "alpha" || name == "alphabetic") {
    return MixedClass(kAlphabetic, {AlphabeticMarks(), AlphabeticSymbols()});
  }
  if (name == "alnum") {
    return MixedClass(kAlphabetic | SetOf(Category::kNd), {AlphabeticMarks(), AlphabeticSymbols()});
  }
  if (name == "upper" || name == "uppercase") {
    return MixedClass(SetOf(Category::kLu), {kOtherUppercase});
  }
  if (name == "lower" || name == "lowercase") {
    return MixedClass(SetOf(Category::kLl), {OtherLowercase()});
  }
  if (name == "graph") return CategoriesClass(kAll & ~kInvisible);
  if (name == "print") return CategoriesClass((kAll & ~kInvisible) | SetOf(Category::kZs));
  return std::nullopt;
}

}  // namespace

std::string EscapeCode(char32_t code) {
  return fmt::format("\\x{{{:X}}}", static_cast<uint32_t>(code));
}

std::string EscapeRange(char32_t first, char32_t last) {
  return first == last ? EscapeCode(first) : EscapeCode(first) + "-" + EscapeCode(last);
}

std::string RangesOf(const std::function<bool(char32_t)>& contains) {
  std::string text;
  for (char32_t code = 0; code < kCodePoints; ++code) {
    if (!contains(code)) continue;
    const char32_t first = code;
    while (code + 1 < kCodePoints && contains(code + 1)) ++code;
    text += EscapeRange(first, code);
  }
  return text;
}

CharacterSet EscapeClass(char lower_case_letter) {
  switch (lower_case_letter) {
    case 's':
      return {kSpace, IsWhiteSpace};
    case 'd':
      return CategoriesClass(SetOf(Category::kNd));
    case 'h':
      return {"0-9a-fA-F", IsHexDigit};
    default:
      return MixedClass(kWord, {AlphabeticSymbols(), kLatinNumbers});
  }
}

std::optional<CharacterSet> PropertyClass(std::string_view name) {
  const std::string folded = Fold(name);
  for (size_t i = 0; i < std::size(kCategoryNames); ++i) {
    if (folded == Fold(kCategoryNames[i])) return CategoriesClass(CategorySet{1} << i);
  }
  for (const auto& [group, set] : kGroups) {
    if (folded == group) return CategoriesClass(set);
  }
  if (std::optional<CharacterSet> other = OtherProperty(folded)) return other;
  for (const char c : folded) {
    if (c < 'a' || c > 'z') return std::nullopt;
  }
  if (folded.empty()) return std::nullopt;
  // Anything else is a script; PCRE2 says so if it is none.
  std::string text = "\\p{sc:" + folded + "}";
  if (folded == "han") text += kNewHan;
  return CharacterSet{text, nullptr};
}

std::optional<CharacterSet> BracketClass(std::string_view name) {
  if (name == "punct") return CategoriesClass(kPunctuation | kSymbols);
  return PropertyClass(name);
}

}  // namespace lazytrain
