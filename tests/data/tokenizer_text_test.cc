// UTF-8 and normalization forms.
#include <gtest/gtest.h>

#include <random>

#include "data/tokenizer/normal_form.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"

namespace lazytrain {
namespace {

const char* const kReplacement = "\xEF\xBF\xBD";

TEST(Utf8Test, RepairsEveryMaximalBrokenPart) {
  struct Case {
    std::string broken;
    std::string repaired;  // R for U+FFFD
    int64_t count;
  };
  const Case cases[] = {
      {"a\x80z", "aRz", 1},
      {"\xC3", "R", 1},
      {"\xE4\xB8", "R", 1},  // a character cut short is one part
      {"\xE4\xB8x", "Rx", 1},
      {"\xF0\x9F\x98", "R", 1},
      {"\xC0\xAF", "RR", 2},            // overlong
      {"\xE0\x80\x80", "RRR", 3},       // overlong
      {"\xED\xA0\x80", "RRR", 3},       // a surrogate
      {"\xF4\x90\x80\x80", "RRRR", 4},  // above U+10FFFF
      {"\xF5\xFF", "RR", 2},
      {"\xF0\x9F\xC3\xA9", "R\xC3\xA9", 1},
      // The example of table 3-8 of the Unicode Standard.
      {"a\xF1\x80\x80\xE1\x80\xC2"
       "b\x80"
       "c\x80\xBF"
       "d",
       "aRRRbRcRRd", 6},
  };
  for (const Case& test : cases) {
    std::string expected;
    for (const char c : test.repaired) expected += c == 'R' ? kReplacement : std::string(1, c);
    int64_t count = 0;
    EXPECT_EQ(RepairUtf8(test.broken, count), expected);
    EXPECT_EQ(count, test.count) << expected;
    EXPECT_FALSE(IsValidUtf8(test.broken));
    EXPECT_FALSE(IsValidUtf8("12345678" + test.broken + "12345678"));
    EXPECT_TRUE(IsValidUtf8(expected));
  }
}

TEST(Utf8Test, RoundTripsEveryCodePoint) {
  std::u32string codes;
  for (char32_t code = 0; code < 0x110000; ++code) {
    if (code < 0xD800 || code > 0xDFFF) codes.push_back(code);
  }
  const std::string text = ToUtf8(codes);
  EXPECT_TRUE(IsValidUtf8(text));
  EXPECT_TRUE(ToCodePoints(text) == codes);
}

TEST(Utf8Test, TokenizerCountsReplacements) {
  const Tokenizer tokenizer = Tokenizer::FromJson(
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "\ufffd": 1}, "merges": []}})", "test");
  EXPECT_EQ(tokenizer.replacements(), 0);
  EXPECT_EQ(tokenizer.Encode("a\xC3(\xA0\x61", false), (std::vector<int32_t>{0, 1, 1, 0}));
  EXPECT_EQ(tokenizer.replacements(), 2);
  EXPECT_EQ(tokenizer.Encode("a", false), (std::vector<int32_t>{0}));
  EXPECT_EQ(tokenizer.replacements(), 2);
}

std::u32string Form(NormalForm form, std::u32string_view codes) {
  std::string text = ToUtf8(codes);
  Normalize(form, text);
  return ToCodePoints(text);
}

TEST(NormalFormTest, HasTheExamplesOfTheStandard) {
  struct Case {
    const char32_t* text;
    const char32_t* nfc;
    const char32_t* nfd;
    const char32_t* nfkc;
    const char32_t* nfkd;
  };
  const Case cases[] = {
      {U"\u00E9", U"\u00E9", U"e\u0301", U"\u00E9", U"e\u0301"},
      {U"e\u0301", U"\u00E9", U"e\u0301", U"\u00E9", U"e\u0301"},
      // Three marks find their places; the one below does not block those above.
      {U"\u0061\u0308\u0323", U"\u1EA1\u0308", U"a\u0323\u0308", U"\u1EA1\u0308", U"a\u0323\u0308"},
      // A second mark of the same class is blocked.
      {U"a\u0306\u0301\u0306", U"\u1EAF\u0306", U"a\u0306\u0301\u0306", U"\u1EAF\u0306",
       U"a\u0306\u0301\u0306"},
      {U"\uFB01", U"\uFB01", U"\uFB01", U"fi", U"fi"},
      {U"\u1E9B\u0323", U"\u1E9B\u0323", U"\u017F\u0323\u0307", U"\u1E69", U"s\u0323\u0307"},
      {U"\uAC01", U"\uAC01", U"\u1100\u1161\u11A8", U"\uAC01", U"\u1100\u1161\u11A8"},
      {U"\u1100\u1161\u11A8", U"\uAC01", U"\u1100\u1161\u11A8", U"\uAC01", U"\u1100\u1161\u11A8"},
      {U"\u212B", U"\u00C5", U"A\u030A", U"\u00C5", U"A\u030A"},
      // Excluded from composition.
      {U"\u0958", U"\u0915\u093C", U"\u0915\u093C", U"\u0915\u093C", U"\u0915\u093C"},
      {U"\u0344", U"\u0308\u0301", U"\u0308\u0301", U"\u0308\u0301", U"\u0308\u0301"},
      {U"\uFF21\u2460", U"\uFF21\u2460", U"\uFF21\u2460", U"A1", U"A1"},
  };
  for (const Case& test : cases) {
    EXPECT_TRUE(Form(NormalForm::kNfc, test.text) == test.nfc) << ToUtf8(test.text);
    EXPECT_TRUE(Form(NormalForm::kNfd, test.text) == test.nfd) << ToUtf8(test.text);
    EXPECT_TRUE(Form(NormalForm::kNfkc, test.text) == test.nfkc) << ToUtf8(test.text);
    EXPECT_TRUE(Form(NormalForm::kNfkd, test.text) == test.nfkd) << ToUtf8(test.text);
  }
}

TEST(NormalFormTest, LeavesWhatIsNewerThanUnicode9) {
  for (const std::u32string_view text : {U"x\u0301\u08D3", U"\U00011935\U00011930", U"\u32FF"}) {
    EXPECT_TRUE(Form(NormalForm::kNfkc, text) == text);
  }
}

// The equalities that Unicode Standard Annex 15 demands of all texts.
TEST(NormalFormTest, FormsAgreeOnRandomTexts) {
  std::mt19937 random(3);
  const std::pair<char32_t, char32_t> blocks[] = {
      {0x20, 0x250},    {0x300, 0x370},   {0x900, 0xE00},   {0x1100, 0x1200}, {0x1E00, 0x2000},
      {0x2100, 0x2200}, {0xAC00, 0xAD00}, {0xF900, 0xFB50}, {0xFB50, 0xFFF0}, {0x1D100, 0x1D800}};
  using enum NormalForm;
  for (int round = 0; round < 20000; ++round) {
    std::u32string text;
    for (size_t i = 0, length = 1 + random() % 8; i < length; ++i) {
      const auto& [first, end] = blocks[random() % std::size(blocks)];
      text.push_back(first + random() % (end - first));
    }
    const std::u32string nfc = Form(kNfc, text);
    const std::u32string nfd = Form(kNfd, text);
    ASSERT_TRUE(Form(kNfc, nfc) == nfc && Form(kNfd, nfd) == nfd) << ToUtf8(text);
    ASSERT_TRUE(Form(kNfc, nfd) == nfc && Form(kNfd, nfc) == nfd) << ToUtf8(text);
    ASSERT_TRUE(Form(kNfkc, nfd) == Form(kNfkc, text)) << ToUtf8(text);
    ASSERT_TRUE(Form(kNfkd, Form(kNfkc, text)) == Form(kNfkd, text)) << ToUtf8(text);
  }
}

TEST(UnicodeTest, LowersEveryCharacterByItself) {
  std::u32string lower;
  for (const char32_t code : U"A\u0130\u03A3\u01C5\u10A0\u00DF\U00010400") {
    if (code != 0) AppendLowercase(code, lower);
  }
  EXPECT_TRUE(lower == U"ai\u0307\u03C3\u01C6\u2D00\u00DF\U00010428");
}

}  // namespace
}  // namespace lazytrain
