#include "data/tokenizer/normal_form.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/tokenizer/normal_form_data.h"
#include "data/tokenizer/utf8.h"

namespace lazytrain {
namespace {

constexpr char32_t kCodePoints = 0x110000;
// Below U+0300 every text is in NFC.
constexpr char kFirstCombiningLead = '\xCC';

// Hangul syllables, section 3.12 of the Unicode Standard.
constexpr char32_t kSyllables = 0xAC00;
constexpr char32_t kLeads = 0x1100;
constexpr char32_t kVowels = 0x1161;
constexpr char32_t kTrails = 0x11A7;  // one before the first: no trail is trail 0
constexpr char32_t kLeadCount = 19;
constexpr char32_t kVowelCount = 21;
constexpr char32_t kTrailCount = 28;
constexpr char32_t kSyllableCount = kLeadCount * kVowelCount * kTrailCount;

using MappingTable = std::unordered_map<char32_t, std::u32string>;

// Calls take(first, last, numbers) for each entry of a table of normal_form_data.h.
template <typename Take>
void ForEachEntry(std::string_view table, Take take) {
  std::u32string numbers;
  char32_t number = 0;
  char32_t first = 0;
  bool in_range = false;
  for (const char c : table) {
    if (c >= '0' && c <= '9') {
      number = number << 4 | static_cast<char32_t>(c - '0');
    } else if (c >= 'A' && c <= 'F') {
      number = number << 4 | static_cast<char32_t>(c - 'A' + 10);
    } else if (c == '-') {
      first = std::exchange(number, 0);
      in_range = true;
    } else {
      numbers.push_back(std::exchange(number, 0));
      if (c != ';') continue;
      const std::u32string_view all = numbers;
      take(in_range ? first : all[0], all[0], all.substr(1));
      numbers.clear();
      in_range = false;
    }
  }
}

void ReadMappings(std::string_view table, MappingTable& mappings) {
  ForEachEntry(table, [&](char32_t first, char32_t last, std::u32string_view to) {
    for (char32_t code = first; code <= last; ++code) {
      std::u32string& mapping = mappings[code];
      mapping = to;
      mapping[0] += code - first;
    }
  });
}

class Tables {
 public:
  Tables() : classes_(kCodePoints), changes_(kCodePoints) {
    ForEachEntry(kCombiningClasses, [&](char32_t first, char32_t last, std::u32string_view to) {
      std::fill(classes_.begin() + first, classes_.begin() + last + 1, static_cast<uint8_t>(to[0]));
    });
    ReadMappings(kCanonicalMappings, canonical_);
    compatible_ = canonical_;
    ReadMappings(kCompatibilityMappings, compatible_);
    FillPairs();
    FillChanges();
  }

  uint8_t ClassOf(char32_t code) const { return classes_[code]; }

  // Whether a text with this character may be out of the form.
  bool MayChange(NormalForm form, char32_t code) const {
    return (changes_[code] >> static_cast<int>(form) & 1) != 0;
  }

  void Decompose(char32_t code, bool compatible, std::u32string& to) const {
    if (code - kSyllables < kSyllableCount) {
      const char32_t index = code - kSyllables;
      to.push_back(kLeads + index / (kVowelCount * kTrailCount));
      to.push_back(kVowels + index / kTrailCount % kVowelCount);
      if (index % kTrailCount != 0) to.push_back(kTrails + index % kTrailCount);
      return;
    }
    const MappingTable& table = compatible ? compatible_ : canonical_;
    const auto found = table.find(code);
    if (found == table.end()) {
      to.push_back(code);
    } else {
      to += found->second;
    }
  }

  // The character that the two compose to, or 0.
  char32_t Compose(char32_t first, char32_t second) const {
    if (first - kLeads < kLeadCount && second - kVowels < kVowelCount) {
      return kSyllables + ((first - kLeads) * kVowelCount + second - kVowels) * kTrailCount;
    }
    if (first - kSyllables < kSyllableCount && (first - kSyllables) % kTrailCount == 0 &&
        second > kTrails && second - kTrails < kTrailCount) {
      return first + second - kTrails;
    }
    const auto found = pairs_.find(uint64_t{first} << 32 | second);
    return found == pairs_.end() ? 0 : found->second;
  }

 private:
  // A composite's pair is its last character and what the others compose to.
  void FillPairs() {
    std::vector<char32_t> excluded;
    ForEachEntry(kCompositionExclusions,
                 [&](char32_t code, char32_t /*last*/, std::u32string_view /*to*/) {
                   excluded.push_back(code);
                 });
    std::vector<std::pair<size_t, char32_t>> composites;  // shorter ones first: longer use them
    for (const auto& [code, to] : canonical_) {
      if (to.size() > 1 && std::find(excluded.begin(), excluded.end(), code) == excluded.end()) {
        composites.emplace_back(to.size(), code);
      }
    }
    std::sort(composites.begin(), composites.end());
    for (const auto& [size, code] : composites) {
      const std::u32string& to = canonical_[code];
      char32_t first = to[0];
      for (size_t i = 1; i + 1 < size; ++i) first = Compose(first, to[i]);
      pairs_[uint64_t{first} << 32 | to[size - 1]] = code;
    }
  }

  void FillChanges() {
    const auto mark = [&](char32_t code, std::initializer_list<NormalForm> forms) {
      for (const NormalForm form : forms) {
        changes_[code] = static_cast<uint8_t>(changes_[code] | 1 << static_cast<int>(form));
      }
    };
    using enum NormalForm;
    for (char32_t code = 0; code < kCodePoints; ++code) {
      if (classes_[code] != 0) mark(code, {kNfc, kNfd, kNfkc, kNfkd});
      if (code - kSyllables < kSyllableCount) mark(code, {kNfd, kNfkd});
    }
    for (const auto& [code, to] : compatible_) mark(code, {kNfkc, kNfkd});
    for (const auto& [code, to] : canonical_) mark(code, {kNfd, kNfc, kNfkc, kNfkd});
    for (const auto& [pair, code] : pairs_) {
      // A composite alone is composed already; what may compose with the character before is not.
      changes_[code] = static_cast<uint8_t>(changes_[code] & ~(1 << static_cast<int>(kNfc)));
      mark(static_cast<char32_t>(pair), {kNfc, kNfkc});
    }
    for (const auto& [pair, code] : pairs_) mark(static_cast<char32_t>(pair), {kNfc, kNfkc});
    for (char32_t i = 0; i < kVowelCount; ++i) mark(kVowels + i, {kNfc, kNfkc});
    for (char32_t i = 1; i < kTrailCount; ++i) mark(kTrails + i, {kNfc, kNfkc});
  }

  std::vector<uint8_t> classes_;
  std::vector<uint8_t> changes_;  // a bit for each form
  MappingTable canonical_;
  MappingTable compatible_;
  std::unordered_map<uint64_t, char32_t> pairs_;
};

const Tables& GetTables() {
  static const Tables tables;
  return tables;
}

bool IsInForm(const Tables& tables, NormalForm form, std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    if (tables.MayChange(form, NextCodePoint(text, i))) return false;
  }
  return true;
}

// Marks in a row come in the order of their classes, equal ones as they were.
void Reorder(const Tables& tables, std::u32string& codes) {
  const auto is_starter = [&](char32_t code) { return tables.ClassOf(code) == 0; };
  for (auto begin = codes.begin(); begin != codes.end();) {
    begin = std::find_if_not(begin, codes.end(), is_starter);
    const auto end = std::find_if(begin, codes.end(), is_starter);
    std::stable_sort(begin, end,
                     [&](char32_t a, char32_t b) { return tables.ClassOf(a) < tables.ClassOf(b); });
    begin = end;
  }
}

// Composes each character with the last starter unless one between them blocks it.
void ComposeAll(const Tables& tables, std::u32string& codes) {
  constexpr size_t kNone = ~size_t{0};
  size_t starter = kNone;
  size_t size = 0;
  int last_class = -1;  // of the character before, -1 if that is the starter itself
  for (const char32_t code : codes) {
    const int combining = tables.ClassOf(code);
    if (starter != kNone && last_class < combining) {
      if (const char32_t composed = tables.Compose(codes[starter], code); composed != 0) {
        codes[starter] = composed;
        continue;
      }
    }
    if (combining == 0) {
      starter = size;
      last_class = -1;
    } else {
      last_class = combining;
    }
    codes[size++] = code;
  }
  codes.resize(size);
}

}  // namespace

void Normalize(NormalForm form, std::string& text) {
  const bool composed = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const auto is_early = [](char c) {
    return static_cast<unsigned char>(c) < static_cast<unsigned char>(kFirstCombiningLead);
  };
  if (form == NormalForm::kNfc ? std::all_of(text.begin(), text.end(), is_early) : IsAscii(text)) {
    return;
  }
  const Tables& tables = GetTables();
  if (IsInForm(tables, form, text)) return;
  std::u32string codes;
  codes.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    tables.Decompose(NextCodePoint(text, i), compatible, codes);
  }
  Reorder(tables, codes);
  if (composed) ComposeAll(tables, codes);
  text = ToUtf8(codes);
}

}  // namespace lazytrain
