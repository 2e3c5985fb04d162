#include "data/tokenizer/unicode.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/unicode_data.h"

namespace lazytrain {
namespace {

constexpr char32_t kCodePoints = 0x110000;

std::vector<Category> ExpandRuns() {
  std::vector<Category> table(kCodePoints, Category::kCn);
  const std::span<const uint32_t> runs = CategoryRuns();
  for (size_t i = 0; i < runs.size(); ++i) {
    const char32_t end = i + 1 < runs.size() ? runs[i + 1] >> 5 : kCodePoints;
    const uint32_t kind = runs[i] & 31;
    for (char32_t code = runs[i] >> 5; code < end; ++code) {
      const bool even = code % 2 == 0;
      table[code] = kind < kUpperLower              ? static_cast<Category>(kind)
                    : even == (kind == kUpperLower) ? Category::kLu
                                                    : Category::kLl;
    }
  }
  return table;
}

constexpr CodeRange kAlphabeticSymbols[] = {
    {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};

}  // namespace

bool Contains(std::span<const CodeRange> sorted, char32_t code) {
  const auto after = std::upper_bound(sorted.begin(), sorted.end(), code,
                                      [](char32_t c, const CodeRange& r) { return c < r.first; });
  return after != sorted.begin() && code <= std::prev(after)->last;
}

std::span<const CodeRange> AlphabeticSymbols() { return kAlphabeticSymbols; }

Category CategoryOf(char32_t code) {
  static const std::vector<Category> table = ExpandRuns();
  return table[code];
}

bool IsWordCharacter(char32_t code) {
  if (code < 0x80) {
    return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') ||
           (code >= '0' && code <= '9') || code == '_';
  }
  constexpr CategorySet kWord =
      kLetters | kMarks | SetOf(Category::kNd) | SetOf(Category::kNl) | SetOf(Category::kPc);
  return IsIn(code, kWord) || code == 0x200C || code == 0x200D ||
         Contains(kAlphabeticSymbols, code);
}

bool IsNumeric(char32_t code) {
  // The last two are new in Unicode 17.
  return IsIn(code, kNumbers) || (code >= 0x11DE0 && code <= 0x11DE9) ||
         (code >= 0x16FF4 && code <= 0x16FF6);
}

bool IsPunctuation(char32_t code) {
  if (code < 0x80) return code > 0x20 && code < 0x7F && !IsWordCharacter(code) ? true : code == '_';
  // U+166D and U+111C9 have become symbols since.
  if (code == 0x166D || code == 0x111C9) return true;
  return IsIn(code, kPunctuation) && !Contains(PunctuationSince8(), code);
}

bool IsAccent(char32_t code) {
  // U+1CF2 and U+1CF3 have become letters since.
  if (code == 0x1CF2 || code == 0x1CF3) return true;
  return IsIn(code, kMarks) && !Contains(MarksSince9(), code);
}

bool IsNonspacingMark(char32_t code) {
  // U+1734 and U+1171E take up space since.
  if (code == 0x1734 || code == 0x1171E) return true;
  return CategoryOf(code) == Category::kMn && !Contains(NonspacingMarksSince8(), code);
}

bool IsControl(char32_t code) {
  constexpr CategorySet kControls =
      SetOf(Category::kCc) | SetOf(Category::kCf) | SetOf(Category::kCo);
  // Format characters that came later.
  constexpr CodeRange kNew[] = {
      {0x890, 0x891}, {0x8E2, 0x8E2}, {0x110CD, 0x110CD}, {0x13430, 0x1343F}};
  return IsIn(code, kControls) && !Contains(kNew, code);
}

void AppendLowercase(char32_t code, std::u32string& text) {
  static const std::unordered_map<char32_t, char32_t> table = [] {
    std::unordered_map<char32_t, char32_t> map;
    for (const LowercaseRun& run : LowercaseRuns()) {
      for (char32_t c = run.first; c <= run.last; c += run.stride) {
        map[c] = static_cast<char32_t>(static_cast<int32_t>(c) + run.distance);
      }
    }
    return map;
  }();
  if (code == 0x130) {
    text += U"i\u0307";
    return;
  }
  const auto found = table.find(code);
  text.push_back(found == table.end() ? code : found->second);
}

}  // namespace lazytrain
