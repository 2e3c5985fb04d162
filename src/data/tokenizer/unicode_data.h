// The tables behind unicode.h, generated from the Unicode Character Database.
#pragma once

#include <cstdint>
#include <span>

#include "data/tokenizer/unicode.h"

namespace lazytrain {

struct CodeRange {
  char32_t first;
  char32_t last;
};

struct CategoryRange {
  char32_t first;
  char32_t last;
  Category category;
};

// first, first + stride, ... last become lower case by adding `distance`.
struct LowercaseRun {
  char32_t first;
  char32_t last;
  char32_t stride;
  int32_t distance;
};

// Each first code point of a run, shifted left by 5, and the run's category. Two numbers above the
// categories: kUpperLower stands for upper case at even and lower case at odd code points,
// kLowerUpper for the reverse.
constexpr uint32_t kUpperLower = 30;
constexpr uint32_t kLowerUpper = 31;
std::span<const uint32_t> CategoryRuns();

std::span<const LowercaseRun> LowercaseRuns();
// Marks that are Alphabetic; with the letters, letter numbers and AlphabeticSymbols these are all.
std::span<const CodeRange> AlphabeticMarks();
// Circled, parenthesised and squared letters: Alphabetic though symbols. Upper-case ones first.
std::span<const CodeRange> AlphabeticSymbols();
// Lowercase that is not of the category Ll.
std::span<const CodeRange> OtherLowercase();
std::span<const CodeRange> MarksSince9();
std::span<const CodeRange> NonspacingMarksSince8();
std::span<const CodeRange> PunctuationSince8();
bool Contains(std::span<const CodeRange> sorted, char32_t code);
// Sorted by category.
std::span<const CategoryRange> CategoriesSince14();

}  // namespace lazytrain
