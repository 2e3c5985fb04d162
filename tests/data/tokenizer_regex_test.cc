// Regular expressions: Oniguruma's meaning, and the words cut by hand against the expressions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/error.h"
#include "data/tokenizer/regex.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"
#include "data/tokenizer/word_split.h"

namespace lazytrain {
namespace {

std::vector<std::string> Matches(const std::string& pattern, const std::string& text) {
  std::vector<std::string> found;
  for (const TextSpan& span : Regex(pattern, "test").FindAll(text)) {
    found.push_back(text.substr(span.begin, span.end - span.begin));
  }
  return found;
}

using Strings = std::vector<std::string>;

TEST(RegexTest, HasTheMeaningOfOniguruma) {
  struct Case {
    const char* pattern;
    const char* text;
    Strings matches;
  };
  const std::vector<Case> cases = {
      // An interval is never possessive: the plus repeats it.
      {"a{1,2}+", "aaaaab", {"aaaaa"}},
      {"(?:ab){2}?c", "ababc abc c", {"ababc", "c", "c"}},
      {"a{,2}b", "aaab b", {"aab", "b"}},
      {"a{x}", "a{x}", {"a{x}"}},
      {"a++b", "aab", {"aab"}},
      // (?m) is dot matches newline; ^ and $ always know lines.
      {"a.b", "a\nb", {}},
      {"(?m)a.b", "a\nb", {"a\nb"}},
      {"(?m:a.)b", "a\nb", {"a\nb"}},
      {"^b$", "a\nb\nc", {"b"}},
      {"\\h+", "xyzBEEFg7", {"BEEF", "7"}},
      {"\\bat\\b", "at cat at", {"at", "at"}},
      {"\\Bt", "at t", {"t"}},
      {"a(?#comment)b", "ab", {"ab"}},
      {"(?<x>.)\\k<x>", "abba", {"bb"}},
      {"x*", "axb", {"", "x", ""}},
      {"[a-c&&b-d]+", "abcd", {"bc"}},
      {"[a[bc]]+", "abcd", {"abc"}},
      {"[^a[^b]]", "abc", {"b"}},
      {"[\\]\\-^]+", "]-^a", {"]-^"}},
      {"\\u00e9|\\x{4E2D}", "\xC3\xA9\xE4\xB8\xAD", {"\xC3\xA9", "\xE4\xB8\xAD"}},
      {"(?i:'s)", "'s 'S '\xC5\xBF", {"'s", "'S", "'\xC5\xBF"}},
      {"\\p{^L}+|\\P{N}", "a1", {"a", "1"}},
      {"\\p{Han}+", "a\xF0\xB1\x8D\x90z", {"\xF0\xB1\x8D\x90"}},  // U+31350, of Unicode 15
      {"[[:punct:]]+|\\p{Punct}", "a$.b", {"$."}},
      {"[\\w]", "\xC2\xB2", {}},
      {"\\w", "\xC2\xB2", {"\xC2\xB2"}},
      {"\\s+", "a\xC2\x85\xE2\x80\xA8\x1C\xE2\x80\x8B", {"\xC2\x85\xE2\x80\xA8"}},
  };
  for (const Case& test : cases) {
    EXPECT_EQ(Matches(test.pattern, test.text), test.matches)
        << test.pattern << " is " << TranslateRegex(test.pattern, "test");
  }
}

// The pattern's matches among all code points are those for which `contains` holds.
void ExpectClass(const std::string& pattern, const std::function<bool(char32_t)>& contains) {
  std::string all;
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (CategoryOf(code) != Category::kCs) AppendUtf8(code, all);
  }
  std::vector<bool> matched(0x110000);
  for (const TextSpan& span : Regex(pattern, "test").FindAll(all)) {
    for (size_t i = span.begin; i < span.end;) matched[NextCodePoint(all, i)] = true;
  }
  int64_t wrong = 0;
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (CategoryOf(code) != Category::kCs && matched[code] != contains(code)) ++wrong;
  }
  EXPECT_EQ(wrong, 0) << pattern;
}

TEST(RegexTest, KnowsTheClassesOfUnicode16) {
  const auto in = [](CategorySet set) { return [set](char32_t code) { return IsIn(code, set); }; };
  ExpectClass("\\p{L}+", in(kLetters));
  ExpectClass("\\p{N}+", in(kNumbers));
  ExpectClass("[^\\p{P}]+", in(~kPunctuation));
  ExpectClass("\\p{Lu}+", in(SetOf(Category::kLu)));
  ExpectClass("\\p{Mn}+", in(SetOf(Category::kMn)));
  ExpectClass("\\P{Cn}+", in(~SetOf(Category::kCn)));
  ExpectClass("[\\P{L}]+", in(~kLetters));
  ExpectClass("\\d+", in(SetOf(Category::kNd)));
  ExpectClass("\\s+", IsWhiteSpace);
  ExpectClass("\\S+", [](char32_t code) { return !IsWhiteSpace(code); });
}

TEST(UnicodeTest, KnowsWhatIsNewInUnicode16) {
  EXPECT_EQ(CategoryOf(0x105C0), Category::kLo);  // Todhri
  EXPECT_EQ(CategoryOf(0x10D40), Category::kNd);  // Garay
  EXPECT_EQ(CategoryOf(0xA7CE), Category::kCn);   // of Unicode 17
  EXPECT_EQ(CategoryOf(0x100), Category::kLu);    // runs of alternating case
  EXPECT_EQ(CategoryOf(0x101), Category::kLl);
  EXPECT_EQ(CategoryOf(0xD800), Category::kCs);
  EXPECT_EQ(CategoryOf(0x10FFFF), Category::kCn);
}

TEST(RegexTest, RefusesWhatItCannotUse) {
  const std::pair<const char*, const char*> cases[] = {
      {"(", "missing closing parenthesis"},  {"[a", "a character class has no end"},
      {"[", "a character class has no end"}, {"\\p{Foo}", "unknown property"},
      {"\\p{", "a property has no name"},    {"\\pL", "a property has no name"},
      {"[b-a]", "a range runs backwards"},   {"[[:foo:]]", "unknown property"},
      {"(?~a)", "absence operator"},         {"\\u12", "four hexadecimal digits"},
      {"[\\q]", "has the escape"},           {"*", "quantifier does not follow"},
      {"\\", "\\ at end of pattern"},        {"[\\x{110000}]", "hexadecimal escape is wrong"},
      {"(?#a", "a comment has no end"},      {"[\\", "a character class has no end"}};
  for (const auto& [pattern, message] : cases) {
    try {
      const Regex regex(pattern, "x.json: pattern");
      ADD_FAILURE() << pattern;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::StartsWith("x.json: pattern: the regular expression '"));
      EXPECT_THAT(error.what(), testing::HasSubstr(message)) << pattern;
    }
  }
}

TEST(RegexTest, ReportsAnExpressionThatNeedsTooManySteps) {
  const Regex regex("(?:a|aa)+$", "test");
  EXPECT_THROW(regex.FindAll(std::string(100, 'a') + "!"), Error);
}

// Characters that the word expressions tell apart, and words made of them.
std::string RandomText(std::mt19937& random) {
  const std::u32string characters =
      U"aAzZ\u00E9\u00C9\u01C5\u02B0\u4E2D\u0301\u0903\u20DD\u0661\u2163\u00BD059''''\u2019//"
      U"    \t\n\n\r\r\u00A0\u2003\u3000\u0085\u200B\u001C.,$+\u20AC\uFFFD\U0001F600\U000105C0";
  const char* words[] = {"'s",    "'S",     "'\xC5\xBF", "'ll",   "'LL",  "'re",
                         "'vE",   "'d",     "'x",        "don't", "\r\n", "  ",
                         "   \n", "123456", "://",       "Hello", "WORLD"};
  std::string text;
  const auto pick = [&](size_t size) { return random() % size; };
  for (size_t i = 0, length = 1 + pick(24); i < length; ++i) {
    if (pick(3) == 0) {
      text += words[pick(std::size(words))];
    } else {
      AppendUtf8(characters[pick(characters.size())], text);
    }
  }
  return text;
}

TEST(WordSplitTest, CutsAsTheExpressionDoes) {
  EXPECT_EQ(KnownWordPatterns().size(), 6U);
  for (const std::string_view pattern : KnownWordPatterns()) {
    const std::unique_ptr<WordSplitter> splitter = FindWordSplitter(pattern);
    ASSERT_NE(splitter, nullptr);
    const Regex regex(std::string(pattern), "test");
    std::mt19937 random(1);
    for (int round = 0; round < 20000; ++round) {
      const std::string random_text = RandomText(random);
      const std::string_view text = random_text;
      std::vector<std::string_view> words;
      splitter->Split(text, words);
      std::vector<std::string_view> expected;
      for (const TextSpan& span : regex.FindAll(text)) {
        expected.push_back(text.substr(span.begin, span.end - span.begin));
      }
      ASSERT_EQ(words, expected) << pattern << "\n" << text;
    }
  }
}

TEST(WordSplitTest, KnowsNoOtherExpression) { EXPECT_EQ(FindWordSplitter("\\w+"), nullptr); }

}  // namespace
}  // namespace lazytrain
