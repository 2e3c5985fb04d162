#include "data/tokenizer/word_split.h"

#include <cstdint>

#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"

namespace lazytrain {

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

// What the expressions ask of a character. kUpper and kLower are the classes of GPT-OSS's words,
// which share the letters without case and the marks.
constexpr uint8_t kLetter = 1;
constexpr uint8_t kNumber = 2;
constexpr uint8_t kSpace = 4;
constexpr uint8_t kNewline = 8;  // carriage return and line feed; these are kSpace too
constexpr uint8_t kMark = 16;
constexpr uint8_t kUpper = 32;
constexpr uint8_t kLower = 64;

uint8_t FlagsOf(char32_t code) {
  constexpr CategorySet kCaseless = SetOf(Category::kLm) | SetOf(Category::kLo) | kMarks;
  constexpr CategorySet kUppers = SetOf(Category::kLu) | SetOf(Category::kLt) | kCaseless;
  constexpr CategorySet kLowers = SetOf(Category::kLl) | kCaseless;
  uint8_t flags = 0;
  const auto add = [&](bool has, uint8_t flag) {
    if (has) flags = static_cast<uint8_t>(flags | flag);
  };
  add(IsIn(code, kLetters), kLetter);
  add(IsIn(code, kNumbers), kNumber);
  add(IsIn(code, kMarks), kMark);
  add(IsIn(code, kUppers), kUpper);
  add(IsIn(code, kLowers), kLower);
  add(IsWhiteSpace(code), kSpace);
  add(code == '\n' || code == '\r', kNewline);
  return flags;
}

const std::vector<uint8_t>& FlagTable() {
  static const std::vector<uint8_t> table = [] {
    std::vector<uint8_t> flags(0x110000);
    for (char32_t code = 0; code < flags.size(); ++code) flags[code] = FlagsOf(code);
    return flags;
  }();
  return table;
}

// A text with its position. Functions that look for something at a position return the position
// behind it, or kNone.
class Scanner {
 public:
  static constexpr size_t kNone = ~size_t{0};

  explicit Scanner(std::string_view text) : text_(text), flags_(FlagTable().data()) {}

  size_t size() const { return text_.size(); }
  char At(size_t i) const { return i < text_.size() ? text_[i] : '\0'; }

  // The flags of the character at i, which is moved behind it.
  uint8_t Take(size_t& i) const {
    const auto byte = static_cast<unsigned char>(text_[i]);
    if (byte < 0x80) {
      ++i;
      return flags_[byte];
    }
    return flags_[NextCodePoint(text_, i)];
  }
  // The flags of the character at i; at the end none.
  uint8_t Peek(size_t i) const { return i < text_.size() ? Take(i) : uint8_t{0}; }

  // The end of the run of characters with any of the flags.
  size_t Run(size_t i, uint8_t any) const {
    while (i < text_.size()) {
      size_t next = i;
      if ((Take(next) & any) == 0) break;
      i = next;
    }
    return i;
  }
  // The end of the run of characters with none of the flags.
  size_t RunWithout(size_t i, uint8_t none) const {
    while (i < text_.size()) {
      size_t next = i;
      if ((Take(next) & none) != 0) break;
      i = next;
    }
    return i;
  }
  // The end of at most `most` numbers.
  size_t Numbers(size_t i, int most) const {
    for (int count = 0; count < most && i < text_.size(); ++count) {
      size_t next = i;
      if ((Take(next) & kNumber) == 0) break;
      i = next;
    }
    return i;
  }

  // (?i:'s|'t|'re|'ve|'m|'ll|'d), or case-sensitive.
  size_t Contraction(size_t i, bool any_case) const {
    if (At(i) != '\'') return kNone;
    const auto lower = [&](size_t at) {
      const char c = At(at);
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    const char first = lower(i + 1);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return i + 2;
    const char second = lower(i + 2);
    if ((first == 'r' || first == 'v') && second == 'e') return i + 3;
    if (first == 'l' && second == 'l') return i + 3;
    // U+017F, the long s, folds to s.
    if (any_case && At(i + 1) == '\xC5' && At(i + 2) == '\xBF') return i + 3;
    return kNone;
  }

  // White space at i, up to the end of its run: \s*[\r\n]+ (if `lines`), \s+(?!\S) and \s+ in turn.
  size_t Spaces(size_t i, bool lines) const {
    size_t last = i;           // the last character of the run
    size_t after_newline = 0;  // behind the last newline of the run
    size_t end = i;
    while (end < text_.size()) {
      size_t next = end;
      const uint8_t flags = Take(next);
      if ((flags & kSpace) == 0) break;
      last = end;
      end = next;
      if ((flags & kNewline) != 0) after_newline = end;
    }
    if (lines && after_newline > 0) return after_newline;
    // The last one is left to the word behind it.
    return end == text_.size() || last == i ? end : last;
  }

  std::string_view Cut(size_t begin, size_t end) const { return text_.substr(begin, end - begin); }

 private:
  std::string_view text_;
  const uint8_t* flags_;
};

class Gpt2Splitter : public WordSplitter {
 public:
  void Split(std::string_view text, std::vector<std::string_view>& words) const override {
    const Scanner scan(text);
    for (size_t i = 0; i < text.size();) {
      const size_t end = Match(scan, i);
      words.push_back(scan.Cut(i, end));
      i = end;
    }
  }

 private:
  static size_t Match(const Scanner& scan, size_t i) {
    if (const size_t end = scan.Contraction(i, false); end != Scanner::kNone) return end;
    // Each kind of word takes one space before it.
    const size_t word = scan.At(i) == ' ' ? i + 1 : i;
    if (word < scan.size()) {
      const uint8_t flags = scan.Peek(word);
      if ((flags & kLetter) != 0) return scan.Run(word, kLetter);
      if ((flags & kNumber) != 0) return scan.Run(word, kNumber);
      if ((flags & kSpace) == 0) return scan.RunWithout(word, kSpace | kLetter | kNumber);
    }
    return scan.Spaces(i, false);
  }
};

enum class Contractions { kNone, kOwnPiece, kEndOfWord };

struct WordRules {
  Contractions contractions;
  int most_numbers;
  uint8_t letters;  // what a word is made of
  bool by_case;     // a word ends before an upper-case letter that follows a lower-case one
  bool slashes;     // / may follow punctuation as a newline may
};

// The family of cl100k_base and o200k_base.
class TiktokenSplitter : public WordSplitter {
 public:
  explicit TiktokenSplitter(const WordRules& rules) : rules_(rules) {}

  void Split(std::string_view text, std::vector<std::string_view>& words) const override {
    const Scanner scan(text);
    for (size_t i = 0; i < text.size();) {
      const size_t end = Match(scan, i);
      words.push_back(scan.Cut(i, end));
      i = end;
    }
  }

 private:
  size_t Match(const Scanner& scan, size_t i) const {
    if (rules_.contractions == Contractions::kOwnPiece) {
      if (const size_t end = scan.Contraction(i, true); end != Scanner::kNone) return end;
    }
    if (const size_t end = rules_.by_case ? CasedWord(scan, i) : Word(scan, i);
        end != Scanner::kNone) {
      return end;
    }
    const uint8_t flags = scan.Peek(i);
    if ((flags & kNumber) != 0) return scan.Numbers(i, rules_.most_numbers);
    // ` ?[^\s\p{L}\p{N}]+[\r\n/]*`
    const auto other = static_cast<uint8_t>(kSpace | kNumber | rules_.letters | kLetter);
    const size_t sign = scan.At(i) == ' ' ? i + 1 : i;
    if (sign < scan.size() && (scan.Peek(sign) & OtherFlags(other)) == 0) {
      size_t end = scan.RunWithout(sign, OtherFlags(other));
      while ((scan.Peek(end) & kNewline) != 0 || (rules_.slashes && scan.At(end) == '/')) ++end;
      return end;
    }
    return scan.Spaces(i, true);
  }

  // By case, words hold marks too, but [^\s\p{L}\p{N}] does not leave them out.
  uint8_t OtherFlags(uint8_t flags) const {
    return rules_.by_case ? static_cast<uint8_t>(kSpace | kNumber | kLetter) : flags;
  }

  // `[^\r\n\p{L}\p{N}]?` as the start of a word: behind it, or kNone if there is none.
  static size_t Prefix(const Scanner& scan, size_t i) {
    size_t next = i;
    return (scan.Take(next) & (kNewline | kLetter | kNumber)) == 0 ? next : Scanner::kNone;
  }

  // `[^\r\n\p{L}\p{N}]?\p{L}+`, or with marks among the letters.
  size_t Word(const Scanner& scan, size_t i) const {
    const size_t prefix = Prefix(scan, i);
    if (prefix != Scanner::kNone && (scan.Peek(prefix) & rules_.letters) != 0) {
      return scan.Run(prefix, rules_.letters);
    }
    return (scan.Peek(i) & rules_.letters) != 0 ? scan.Run(i, rules_.letters) : Scanner::kNone;
  }

  // `prefix?[upper]*[lower]+` or else `prefix?[upper]+[lower]*`, with a contraction perhaps.
  size_t CasedWord(const Scanner& scan, size_t i) const {
    const size_t prefix = Prefix(scan, i);
    size_t end = prefix == Scanner::kNone ? Scanner::kNone : EndingLower(scan, prefix);
    if (end == Scanner::kNone) end = EndingLower(scan, i);
    if (end == Scanner::kNone && prefix != Scanner::kNone) end = BeginningUpper(scan, prefix);
    if (end == Scanner::kNone) end = BeginningUpper(scan, i);
    if (end == Scanner::kNone || rules_.contractions != Contractions::kEndOfWord) return end;
    const size_t contraction = scan.Contraction(end, true);
    return contraction == Scanner::kNone ? end : contraction;
  }

  // `[upper]*[lower]+`. If nothing lower follows the upper run, it gives back characters until one
  // that counts as both is the lower part.
  static size_t EndingLower(const Scanner& scan, size_t i) {
    size_t upper = i;
    size_t after_both = Scanner::kNone;  // behind the last of the run that is lower as well
    while (upper < scan.size()) {
      size_t next = upper;
      const uint8_t flags = scan.Take(next);
      if ((flags & kUpper) == 0) break;
      upper = next;
      if ((flags & kLower) != 0) after_both = next;
    }
    const size_t end = scan.Run(upper, kLower);
    return end > upper ? end : after_both;
  }

  // `[upper]+[lower]*`
  static size_t BeginningUpper(const Scanner& scan, size_t i) {
    const size_t upper = scan.Run(i, kUpper);
    return upper == i ? Scanner::kNone : scan.Run(upper, kLower);
  }

  WordRules rules_;
};

struct KnownPattern {
  const char* pattern;
  WordRules rules;
};

constexpr KnownPattern kKnown[] = {
    // Qwen2 to Qwen3.
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
     {Contractions::kOwnPiece, 1, kLetter, false, false}},
    // Llama 3.
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
     R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
     {Contractions::kOwnPiece, 3, kLetter, false, false}},
    // Qwen3.5.
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+)"
     R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     {Contractions::kOwnPiece, 1, kLetter | kMark, false, false}},
    // GPT-OSS.
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)"
     R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+)"
     R"([\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     {Contractions::kEndOfWord, 3, kLetter, true, true}},
    // Mistral Nemo.
    {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
     R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N})"
     R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     {Contractions::kNone, 1, kLetter, true, true}},
};

}  // namespace

std::unique_ptr<WordSplitter> FindWordSplitter(std::string_view pattern) {
  if (pattern == kGpt2Pattern) return std::make_unique<Gpt2Splitter>();
  for (const KnownPattern& known : kKnown) {
    if (pattern == known.pattern) return std::make_unique<TiktokenSplitter>(known.rules);
  }
  return nullptr;
}

std::vector<std::string_view> KnownWordPatterns() {
  std::vector<std::string_view> patterns = {kGpt2Pattern};
  for (const KnownPattern& known : kKnown) patterns.emplace_back(known.pattern);
  return patterns;
}

}  // namespace lazytrain
