// TranslateRegex: from Oniguruma's Ruby syntax to PCRE2's.
#include <algorithm>

#include "core/error.h"
#include "data/tokenizer/regex.h"
#include "data/tokenizer/regex_class.h"
#include "data/tokenizer/utf8.h"

namespace lazytrain {
namespace {

// A class between brackets while it is read: the text of its items, and whether a character is in
// it.
struct ClassBody {
  std::string text;
  std::vector<std::function<bool(char32_t)>> items;  // null where only PCRE2 knows
  bool needs_ranges = false;                         // the text cannot say it
};

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& place)
      : pattern_(pattern), place_(place) {}

  std::string Translate() {
    while (position_ < pattern_.size()) Step();
    return std::move(out_);
  }

 private:
  static constexpr int kDeepest = 100;

  [[noreturn]] void Fail(std::string_view what) const {
    throw RunError("{}: the regular expression '{}' cannot be used: {}; write it without", place_,
                   pattern_, what);
  }

  bool Follows(std::string_view text) const { return pattern_.substr(position_).starts_with(text); }
  char Next() const { return position_ < pattern_.size() ? pattern_[position_] : '\0'; }

  void Atom(std::string_view text) {
    atom_ = out_.size();
    out_ += text;
  }

  void Step();
  void Group();
  void Escape();
  void Interval();
  void Class();
  CharacterSet Property(bool& negated);
  std::string HexEscape();
  std::function<bool(char32_t)> ReadClass(ClassBody& body, int depth);
  void ClassItem(ClassBody& body, int depth);
  void AddSet(ClassBody& body, const CharacterSet& set, bool negated) const;
  std::optional<char32_t> ClassLiteral();
  std::string Brackets(const CharacterSet& set, bool negated) const;

  std::string_view pattern_;
  const std::string& place_;
  size_t position_ = 0;
  std::string out_;
  size_t atom_ = 0;             // where the last atom begins in out_
  std::vector<size_t> groups_;  // where the open groups begin in out_
};

void Translator::Step() {
  const char c = Next();
  if (c == '\\') {
    Escape();
  } else if (c == '[') {
    Class();
  } else if (c == '(') {
    Group();
  } else if (c == ')') {
    out_ += c;
    ++position_;
    if (!groups_.empty()) {
      atom_ = groups_.back();
      groups_.pop_back();
    }
  } else if (c == '{') {
    Interval();
  } else if (c == '*' || c == '+' || c == '?' || c == '|') {
    out_ += c;
    ++position_;
  } else {
    const size_t length = std::min(Utf8Length(c), pattern_.size() - position_);
    Atom(pattern_.substr(position_, length));
    position_ += length;
  }
}

void Translator::Group() {
  const size_t begin = out_.size();
  if (Follows("(?#")) {
    const size_t end = pattern_.find(')', position_);
    if (end == std::string_view::npos) Fail("a comment has no end");
    position_ = end + 1;
    return;
  }
  if (Follows("(?~")) Fail("it has an absence operator");
  out_ += '(';
  ++position_;
  if (Next() == '?') {
    out_ += '?';
    ++position_;
    // Ruby's m is what others call s; its ^ and $ always know lines.
    for (char c = Next(); c == 'i' || c == 'm' || c == 'x' || c == '-'; c = Next()) {
      out_ += c == 'm' ? 's' : c;
      ++position_;
    }
    if (Next() == ')') {  // options up to the end of the group around
      out_ += ')';
      ++position_;
      return;
    }
    for (const std::string_view kind : {"<=", "<!", ":", "=", "!", ">", "<"}) {
      if (!Follows(kind)) continue;
      out_ += kind;
      position_ += kind.size();
      break;
    }
  }
  groups_.push_back(begin);
}

void Translator::Interval() {
  const size_t end = pattern_.find('}', position_);
  const std::string_view inside =
      end == std::string_view::npos ? "" : pattern_.substr(position_ + 1, end - position_ - 1);
  const bool valid = inside.find_first_of("0123456789") != std::string_view::npos &&
                     inside.find_first_not_of("0123456789,") == std::string_view::npos &&
                     std::count(inside.begin(), inside.end(), ',') <= 1;
  if (!valid) {
    Atom("\\{");
    ++position_;
    return;
  }
  position_ = end + 1;
  out_ += '{';
  if (inside[0] == ',') out_ += '0';
  out_.append(inside).append("}");
  const bool fixed = inside.find(',') == std::string_view::npos;
  if (Next() == '?' && !fixed) {
    out_ += '?';
    ++position_;
  } else if (Next() == '+' || Next() == '?') {
    // Not possessive or lazy: the interval is repeated as a whole.
    out_.insert(atom_, "(?:");
    out_ += ')';
  }
}

std::string Translator::Brackets(const CharacterSet& set, bool negated) const {
  const std::string text = set.text.empty() ? RangesOf(set.contains) : set.text;
  return (negated ? "[^" : "[") + text + "]";
}

// \p{name}, \P{name}, \p{^name}; position_ is on the letter.
CharacterSet Translator::Property(bool& negated) {
  negated = Next() == 'P';
  const size_t end = pattern_.find('}', position_);
  if (pattern_.substr(position_ + 1, 1) != "{" || end == std::string_view::npos) {
    Fail("a property has no name");
  }
  std::string_view name = pattern_.substr(position_ + 2, end - position_ - 2);
  if (name.starts_with('^')) {
    negated = !negated;
    name.remove_prefix(1);
  }
  position_ = end + 1;
  std::optional<CharacterSet> set = PropertyClass(name);
  if (!set) Fail(fmt::format("the property '{}' is unknown", name));
  return *std::move(set);
}

// \uHHHH; position_ is on the u.
std::string Translator::HexEscape() {
  const std::string_view digits = pattern_.substr(position_ + 1, 4);
  if (digits.size() != 4 ||
      digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) {
    Fail("\\u has no four hexadecimal digits");
  }
  position_ += 5;
  return "\\x{" + std::string(digits) + "}";
}

void Translator::Escape() {
  ++position_;
  const char c = Next();
  const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  if (lower == 's' || lower == 'd' || lower == 'w' || lower == 'h') {
    ++position_;
    Atom(Brackets(EscapeClass(lower), c != lower));
  } else if (lower == 'b') {
    ++position_;
    const std::string word = Brackets(EscapeClass('w'), false);
    const char* both =
        c == 'b' ? "(?:(?<={0})(?!{0})|(?<!{0})(?={0}))" : "(?:(?<={0})(?={0})|(?<!{0})(?!{0}))";
    Atom(fmt::format(fmt::runtime(both), word));
  } else if (lower == 'p') {
    bool negated = false;
    const CharacterSet set = Property(negated);
    Atom(Brackets(set, negated));
  } else if (c == 'u') {
    Atom(HexEscape());
  } else if (c == 'v') {
    ++position_;
    Atom("\\x0B");
  } else {
    Atom("\\");
    out_ += pattern_.substr(position_, 1);
    position_ = std::min(position_ + 1, pattern_.size());
    // A name or number in braces or angle brackets belongs to the escape.
    const bool braces = (c == 'x' || c == 'o') && Next() == '{';
    const bool angles = (c == 'k' || c == 'g') && Next() == '<';
    if (!braces && !angles) return;
    const size_t end = pattern_.find(braces ? '}' : '>', position_);
    if (end == std::string_view::npos) Fail("an escape has no end");
    out_ += pattern_.substr(position_, end + 1 - position_);
    position_ = end + 1;
  }
}

void Translator::Class() {
  ++position_;
  const bool negated = Next() == '^';
  if (negated) ++position_;
  ClassBody body;
  const std::function<bool(char32_t)> contains = ReadClass(body, 0);
  std::string text = std::move(body.text);
  if (body.needs_ranges) {
    if (contains == nullptr) Fail("a class combines a script with others");
    text = RangesOf(contains);
    if (text.empty()) {  // matches nothing, or with ^ anything
      Atom(negated ? "[\\x{0}-\\x{10FFFF}]" : "(?!)");
      return;
    }
  }
  Atom((negated ? "[^" : "[") + text + "]");
}

// Reads up to the closing bracket. Returns the test for the whole body, null if there is none.
std::function<bool(char32_t)> Translator::ReadClass(ClassBody& body, int depth) {
  if (depth > kDeepest) Fail("its classes are nested too deep");
  std::vector<std::vector<std::function<bool(char32_t)>>> parts;  // to be intersected
  bool first = true;
  while (first || Next() != ']') {
    if (position_ >= pattern_.size()) Fail("a character class has no end");
    if (Follows("&&")) {
      position_ += 2;
      body.needs_ranges = true;
      parts.push_back(std::exchange(body.items, {}));
    } else {
      ClassItem(body, depth);
    }
    first = false;
  }
  ++position_;
  parts.push_back(std::exchange(body.items, {}));
  for (const auto& items : parts) {
    for (const auto& item : items) {
      if (item == nullptr) return nullptr;
    }
  }
  return [parts](char32_t code) {
    return std::all_of(parts.begin(), parts.end(), [&](const auto& items) {
      return std::any_of(items.begin(), items.end(), [&](const auto& item) { return item(code); });
    });
  };
}

void Translator::AddSet(ClassBody& body, const CharacterSet& set, bool negated) const {
  std::function<bool(char32_t)> contains = set.contains;
  if (negated && contains != nullptr) {
    contains = [inner = set.contains](char32_t code) { return !inner(code); };
  }
  if (set.text.empty() || negated) body.needs_ranges = true;
  body.text += set.text;
  body.items.push_back(negated && set.contains == nullptr ? nullptr : contains);
}

void Translator::ClassItem(ClassBody& body, int depth) {
  if (Follows("[:")) {
    const size_t end = pattern_.find(":]", position_);
    if (end != std::string_view::npos) {
      std::string_view name = pattern_.substr(position_ + 2, end - position_ - 2);
      const bool negated = name.starts_with('^');
      if (negated) name.remove_prefix(1);
      const std::optional<CharacterSet> set = BracketClass(name);
      if (!set) Fail(fmt::format("the class '{}' is unknown", name));
      position_ = end + 2;
      AddSet(body, *set, negated);
      return;
    }
  }
  if (Next() == '[') {
    ++position_;
    const bool negated = Next() == '^';
    if (negated) ++position_;
    ClassBody inner;
    const std::function<bool(char32_t)> contains = ReadClass(inner, depth + 1);
    AddSet(body, {inner.needs_ranges ? "" : inner.text, contains}, negated);
    return;
  }
  if (Next() == '\\') {
    const char c = position_ + 1 < pattern_.size() ? pattern_[position_ + 1] : '\0';
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (lower == 's' || lower == 'd' || lower == 'w' || lower == 'h') {
      position_ += 2;
      // Between brackets \w is the property, without the Latin-1 numbers.
      AddSet(body, lower == 'w' ? *PropertyClass("word") : EscapeClass(lower), c != lower);
      return;
    }
    if (lower == 'p') {
      ++position_;
      bool negated = false;
      const CharacterSet set = Property(negated);
      AddSet(body, set, negated);
      return;
    }
  }
  const std::optional<char32_t> low = ClassLiteral();
  char32_t high = *low;
  if (Next() == '-' && position_ + 1 < pattern_.size() && pattern_[position_ + 1] != ']') {
    ++position_;
    const std::optional<char32_t> last = ClassLiteral();
    if (last < low) Fail("a range runs backwards");
    high = *last;
  }
  body.text += EscapeRange(*low, high);
  body.items.emplace_back([first = *low, high](char32_t c) { return c >= first && c <= high; });
}

// One character of a class, perhaps written as an escape.
std::optional<char32_t> Translator::ClassLiteral() {
  if (Next() != '\\') return NextCodePoint(pattern_, position_);
  ++position_;
  if (position_ >= pattern_.size()) Fail("a character class has no end");
  constexpr std::string_view kLetters = "tnrfvaeb0";
  constexpr std::string_view kCodes = std::string_view("\t\n\r\f\v\a\x1B\b\0", 9);
  const char c = Next();
  if (const size_t at = kLetters.find(c); at != std::string_view::npos) {
    ++position_;
    return static_cast<unsigned char>(kCodes[at]);
  }
  if (c == 'x' || c == 'u') {
    ++position_;
    const bool braces = Next() == '{';
    const size_t longest = braces ? 8 : c == 'x' ? 2 : 4;
    if (braces) ++position_;
    char32_t code = 0;
    size_t digits = 0;
    for (; digits < longest; ++digits, ++position_) {
      const std::string_view all = "0123456789abcdef0123456789ABCDEF";
      const size_t value = Next() == '\0' ? std::string_view::npos : all.find(Next());
      if (value == std::string_view::npos) break;
      code = code << 4 | static_cast<char32_t>(value % 16);
    }
    if (digits == 0 || code > 0x10FFFF) Fail("a hexadecimal escape is wrong");
    if (braces && Next() != '}') Fail("a hexadecimal escape has no end");
    if (braces) ++position_;
    return code;
  }
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '1' && c <= '9')) {
    Fail(fmt::format("a class has the escape '\\{}'", c));
  }
  return NextCodePoint(pattern_, position_);
}

}  // namespace

std::string TranslateRegex(std::string_view pattern, const std::string& place) {
  return Translator(pattern, place).Translate();
}

}  // namespace lazytrain
