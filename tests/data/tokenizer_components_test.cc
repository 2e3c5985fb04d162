// Each component of tokenizer.json by itself. Expected values are those of the Hugging Face
// library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "data/tokenizer/decoder.h"
#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/post_processor.h"
#include "data/tokenizer/pre_tokenizer.h"

namespace lazytrain {
namespace {

using Strings = std::vector<std::string>;

struct NormalizerCase {
  const char* json;
  const char* text;
  const char* normalized;
};

// clang-format off
const NormalizerCase kNormalizerCases[] = {
    {R"({"type":"NFD"})",
     "\xC3\xA9\xEA\xB0\x81\xE2\x91\xA0",
     "e\xCC\x81\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8\xE2\x91\xA0"},
    {R"({"type":"NFKC"})",
     "\xE2\x91\xA0\xEF\xAC\x81\xE2\x91\xA0 \xC3\xA9\xCC\xA7",
     "1fi1 \xC8\xA9\xCC\x81"},
    {R"({"type":"NFKD"})",
     "\xEF\xB7\xBA\xC2\xBD",
     "\xD8\xB5\xD9\x84\xD9\x89 \xD8\xA7\xD9\x84\xD9\x84\xD9\x87 \xD8\xB9\xD9\x84\xD9\x8A\xD9\x87 \xD9\x88\xD8\xB3\xD9\x84\xD9\x85""1\xE2\x81\x84""2"},
    {R"({"type":"NFC"})",
     "e\xCC\xA3\xCC\x82 \xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8 x\xCC\x81\xE0\xA3\x93",
     "\xE1\xBB\x87 \xEA\xB0\x81 x\xCC\x81\xE0\xA3\x93"},
    {R"({"type":"Lowercase"})",
     "\xC3\x80\xC4\xB0\xCE\xA3\xC7\x85""A",
     "\xC3\xA0i\xCC\x87\xCF\x83\xC7\x86""a"},
    {R"({"type":"Strip","strip_left":true,"strip_right":false})",
     "\xE3\x80\x80\t a b \n",
     "a b \n"},
    {R"({"type":"Strip","strip_left":false,"strip_right":true})",
     " a \xE2\x80\x83",
     " a"},
    {R"({"type":"Sequence","normalizers":[{"type":"NFD"},{"type":"StripAccents"}]})",
     "Cr\xC3\xA8me br\xC3\xBBl\xC3\xA9""e \xE0\xA4\xA8\xE0\xA4\xBF",
     "Creme brulee \xE0\xA4\xA8"},
    {R"({"type":"Prepend","prepend":"\u2581"})",
     "ab",
     "\xE2\x96\x81""ab"},
    {R"({"type":"Replace","pattern":{"String":"ab"},"content":"x"})",
     "ababab b",
     "xxx b"},
    {R"({"type":"Replace","pattern":{"Regex":"[0-9]+"},"content":"#"})",
     "a12b3",
     "a#b#"},
    {R"({"type":"Replace","pattern":{"Regex":"x*"},"content":"-"})",
     "axxb",
     "-a-b-"},
    {R"({"type":"Replace","pattern":{"String":""},"content":"-"})",
     "ab",
     "-a-b-"},
    {R"({"type":"Nmt"})",
     "a\x07""b\tc\xE2\x80\x8B""d\xEF\xBB\xBF",
     "ab c d "},
    {R"({"type":"ByteLevel"})",
     "a \xC3\xA9",
     "a\xC4\xA0\xC3\x83\xC2\xA9"},
    {R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true})",
     "A\t\xC3\x89\xE4\xB8\xAD\xE2\x80\x8D\x0B\xEF\xBF\xBD!",
     "a e \xE4\xB8\xAD !"},
    {R"({"type":"BertNormalizer","clean_text":false,"handle_chinese_chars":false,"strip_accents":false,"lowercase":true})",
     "A\xC3\x89\t\xE4\xB8\xAD",
     "a\xC3\xA9\t\xE4\xB8\xAD"},
};
// clang-format on

TEST(NormalizerTest, RewritesAsTheReference) {
  for (const NormalizerCase& test : kNormalizerCases) {
    std::string text = test.text;
    ParseNormalizer(ParseJson(test.json, "test"), "test")->Apply(text);
    EXPECT_EQ(text, test.normalized) << test.json;
  }
}

struct PreTokenizerCase {
  const char* json;
  const char* text;
  Strings pieces;
};

// clang-format off
const std::vector<PreTokenizerCase> kPreTokenizerCases = {
    {R"({"type":"Split","pattern":{"String":"-"},"behavior":"Removed","invert":false})",
     "-a--b-c",
     {"a", "b", "c"}},
    {R"({"type":"Split","pattern":{"String":"-"},"behavior":"Isolated","invert":false})",
     "-a--b-c",
     {"-", "a", "-", "-", "b", "-", "c"}},
    {R"({"type":"Split","pattern":{"String":"-"},"behavior":"MergedWithPrevious","invert":false})",
     "-a--b-c",
     {"-", "a-", "-", "b-", "c"}},
    {R"({"type":"Split","pattern":{"String":"-"},"behavior":"MergedWithNext","invert":false})",
     "-a--b-c",
     {"-a", "-", "-b", "-c"}},
    {R"({"type":"Split","pattern":{"String":"-"},"behavior":"Contiguous","invert":false})",
     "-a--b-c",
     {"-", "a", "--", "b", "-", "c"}},
    {R"({"type":"Split","pattern":{"Regex":"\\d+"},"behavior":"Removed","invert":true})",
     "a12b3",
     {"12", "3"}},
    {R"({"type":"Split","pattern":{"Regex":"\\p{N}{1,3}+"},"behavior":"Isolated","invert":false})",
     "a12345b",
     {"a", "12345", "b"}},
    {R"({"type":"Split","pattern":{"Regex":"(?i:THE)|\\bx\\b"},"behavior":"Isolated","invert":false})",
     "the x xy THe",
     {"the", " ", "x", " xy ", "THe"}},
    {R"({"type":"Split","pattern":{"Regex":"[\\p{L}&&[^a-f]]+"},"behavior":"Isolated","invert":false})",
     "abxyzf1",
     {"ab", "xyz", "f1"}},
    {R"({"type":"Digits","individual_digits":true})",
     "a12\xE2\x85\xA3\xC2\xBD""b",
     {"a", "1", "2", "\xE2\x85\xA3", "\xC2\xBD", "b"}},
    {R"({"type":"Digits","individual_digits":false})",
     "a12\xE2\x85\xA3 b",
     {"a", "12\xE2\x85\xA3", " b"}},
    {R"({"type":"Punctuation","behavior":"Isolated"})",
     "a,b..$c\xC2\xBF""d+",
     {"a", ",", "b", ".", ".", "$", "c", "\xC2\xBF", "d", "+"}},
    {R"({"type":"Punctuation","behavior":"Contiguous"})",
     "a,b.. c",
     {"a", ",", "b", "..", " c"}},
    {R"({"type":"Whitespace"})",
     "Hey, you!  x_y \xC3\xA9\xCC\x81 ++a",
     {"Hey", ",", "you", "!", "x_y", "\xC3\xA9\xCC\x81", "++", "a"}},
    {R"({"type":"WhitespaceSplit"})",
     " a\xE3\x80\x80""b\n c ",
     {"a", "b", "c"}},
    {R"({"type":"CharDelimiterSplit","delimiter":"e"})",
     "eabecde",
     {"ab", "cd"}},
    {R"({"type":"BertPreTokenizer"})",
     "a b,c\xE2\x80\x94""d $",
     {"a", "b", ",", "c", "\xE2\x80\x94", "d", "$"}},
    {R"({"type":"FixedLength","length":3})",
     "ab\xC3\xA9""cdefg",
     {"ab\xC3\xA9", "cde", "fg"}},
    {R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":"always","split":true})",
     "a  b",
     {"\xE2\x96\x81""a", "\xE2\x96\x81", "\xE2\x96\x81""b"}},
    {R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":"never","split":true})",
     "a b",
     {"a", "\xE2\x96\x81""b"}},
    {R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":"always","split":false})",
     " a b",
     {"\xE2\x96\x81""a\xE2\x96\x81""b"}},
    {R"({"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Metaspace","replacement":"_","prepend_scheme":"first","split":true}]})",
     "a b c",
     {"_a", "b", "c"}},
    {R"({"type":"Sequence","pretokenizers":[{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},{"type":"CharDelimiterSplit","delimiter":"\u0120"}]})",
     "a \xC3\xA9",
     {"a", "\xC3\x83\xC2\xA9"}},
};
// clang-format on

Strings Cut(const PreTokenizerChain& chain, std::string_view text) {
  PieceList list;
  list.Add(text);
  list.start = text.data();
  chain.Apply(list);
  return {list.pieces.begin(), list.pieces.end()};
}

TEST(PreTokenizerTest, CutsAsTheReference) {
  for (const PreTokenizerCase& test : kPreTokenizerCases) {
    const PreTokenizerChain chain = ParsePreTokenizer(ParseJson(test.json, "test"), "test");
    EXPECT_EQ(Cut(chain, test.text), test.pieces) << test.json;
    EXPECT_FALSE(chain.byte_alphabet);
  }
}

TEST(PreTokenizerTest, LeavesTheByteAlphabetToTheModelWhereItComesLast) {
  const PreTokenizerChain chain =
      ParsePreTokenizer(ParseJson(R"({"type": "Sequence", "pretokenizers": [{"type": "Digits",
                    "individual_digits": true}, {"type": "ByteLevel", "add_prefix_space": true,
                    "use_regex": false}]})",
                                  "test"),
                        "test");
  EXPECT_TRUE(chain.byte_alphabet);
  EXPECT_EQ(Cut(chain, "a 1"), (Strings{" a ", " 1"}));
}

TEST(PreTokenizerTest, CutsNoPieceOfAnEmptyText) {
  for (const PreTokenizerCase& test : kPreTokenizerCases) {
    EXPECT_TRUE(Cut(ParsePreTokenizer(ParseJson(test.json, "test"), "test"), "").empty());
  }
}

struct DecoderCase {
  const char* json;
  Strings tokens;
  const char* text;
};

// clang-format off
const std::vector<DecoderCase> kDecoderCases = {
    {R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})",
     {"Hel", "lo", "\xC4\xA0", "w\xC3\x83\xC2\xA9", "\xE4\xB8\xAD", "\xC3\x83"},
     "Hello w\xC3\xA9\xE4\xB8\xAD\xEF\xBF\xBD"},
    {R"({"type":"ByteFallback"})",
     {"a", "<0xC3>", "<0xA9>", "b", "<0xC3>", "<0x41>", "<0xZZ>"},
     "a\xC3\xA9""b\xEF\xBF\xBD\xEF\xBF\xBD<0xZZ>"},
    {R"({"type":"Fuse"})",
     {"a", "b"},
     "ab"},
    {R"({"type":"Strip","content":" ","start":1,"stop":0})",
     {"  a", " b", "c "},
     " abc "},
    {R"({"type":"Replace","pattern":{"String":"\u2581"},"content":" "})",
     {"\xE2\x96\x81""a", "b\xE2\x96\x81\xE2\x96\x81""c"},
     " ab  c"},
    {R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":"always","split":true})",
     {"\xE2\x96\x81\xE2\x96\x81""a", "\xE2\x96\x81""b"},
     "a b"},
    {R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":"never","split":true})",
     {"\xE2\x96\x81""a", "\xE2\x96\x81""b"},
     " a b"},
    {R"({"type":"BPEDecoder","suffix":"</w>"})",
     {"a", "b</w>", "c</w>"},
     "ab c"},
    {R"({"type":"WordPiece","prefix":"##","cleanup":true})",
     {"do", "n", "##'", "##t", " ,"},
     "do n't ,"},
    {R"({"type":"WordPiece","prefix":"##","cleanup":false})",
     {"##a", "##b", "c", "."},
     "##ab c ."},
    {R"({"type":"CTC","pad_token":"<pad>","word_delimiter_token":"|","cleanup":true})",
     {"h", "h", "<pad>", "e", "l", "<pad>", "l", "|", "|", "o"},
     "hell o"},
    {R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"\u2581"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})",
     {"\xE2\x96\x81""a", "<0xE4>", "<0xB8>", "<0xAD>", "\xE2\x96\x81""b"},
     "a\xE4\xB8\xAD b"},
};
// clang-format on

TEST(DecoderTest, JoinsAsTheReference) {
  for (const DecoderCase& test : kDecoderCases) {
    Strings tokens = test.tokens;
    ParseDecoder(ParseJson(test.json, "test"), "test")->Apply(tokens);
    std::string text;
    for (const std::string& token : tokens) text += token;
    EXPECT_EQ(text, test.text) << test.json;
  }
}

TEST(PostProcessorTest, FramesATextWithSpecialTokens) {
  const auto frame = [](const char* json) {
    const SpecialFrame read = ParsePostProcessor(ParseJson(json, "test"), "test");
    return std::pair(read.before, read.after);
  };
  using Frame = std::pair<std::vector<int32_t>, std::vector<int32_t>>;
  EXPECT_EQ(frame(R"({"type": "ByteLevel"})"), Frame());
  EXPECT_EQ(frame(R"({"type": "BertProcessing", "sep": ["s", 5], "cls": ["c", 4]})"),
            Frame({4}, {5}));
  EXPECT_EQ(frame(R"({"type": "Sequence", "processors": [{"type": "ByteLevel"},
                      {"type": "RobertaProcessing", "sep": ["s", 5], "cls": ["c", 4]}]})"),
            Frame({4}, {5}));
  EXPECT_EQ(frame(R"({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "a"}},
                      {"SpecialToken": {"id": "b"}}, {"Sequence": {"id": "A"}},
                      {"SpecialToken": {"id": "b"}}], "special_tokens": {
                      "a": {"ids": [7]}, "b": {"ids": [8, 9]}}})"),
            Frame({7, 8, 9}, {8, 9}));
}

// What a component's JSON is refused for.
template <typename Parse>
std::string ErrorOf(Parse parse, const char* json) {
  try {
    parse(ParseJson(json, "test"), "x.json: part");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ComponentErrorTest, NamesThePlaceTheComponentAndTheField) {
  const auto normalizer = [](const char* json) { return ErrorOf(ParseNormalizer, json); };
  const auto pre_tokenizer = [](const char* json) { return ErrorOf(ParsePreTokenizer, json); };
  const auto decoder = [](const char* json) { return ErrorOf(ParseDecoder, json); };
  const auto post_processor = [](const char* json) { return ErrorOf(ParsePostProcessor, json); };
  using testing::HasSubstr;
  using testing::StartsWith;
  EXPECT_THAT(normalizer(R"({"type": "Precompiled"})"),
              StartsWith("x.json: part: the normalizer 'Precompiled' is not supported"));
  EXPECT_THAT(pre_tokenizer(R"({"type": "UnicodeScripts"})"),
              StartsWith("x.json: part: the pre_tokenizer 'UnicodeScripts' is not supported"));
  EXPECT_THAT(decoder(R"({"type": "Sequence", "decoders": [{"type": "Foo"}]})"),
              StartsWith("x.json: part: the decoder 'Foo' is not supported"));
  EXPECT_THAT(post_processor(R"({"type": "Foo"})"),
              StartsWith("x.json: part: the post_processor 'Foo' is not supported"));
  EXPECT_THAT(normalizer("[]"), HasSubstr("expected a JSON object, found array"));
  EXPECT_THAT(normalizer("{}"), HasSubstr("the field 'type' is missing"));
  EXPECT_THAT(normalizer(R"({"type": 3})"), HasSubstr("'type' is not a string"));
  EXPECT_THAT(normalizer(R"({"type": "Sequence", "normalizers": {}})"),
              HasSubstr("'normalizers' is not an array"));
  EXPECT_THAT(normalizer(R"({"type": "Strip", "strip_left": 1, "strip_right": true})"),
              HasSubstr("'strip_left' is not true or false"));
  EXPECT_THAT(normalizer(R"({"type": "Replace", "pattern": {"Regex": "("}, "content": ""})"),
              HasSubstr("Replace: pattern: the regular expression '(' cannot be used"));
  EXPECT_THAT(pre_tokenizer(R"({"type": "Split", "pattern": {"String": "a"}, "invert": false,
                                "behavior": "Foo"})"),
              HasSubstr("'behavior' is not Removed, Isolated"));
  EXPECT_THAT(pre_tokenizer(R"({"type": "CharDelimiterSplit", "delimiter": "ab"})"),
              HasSubstr("'delimiter' is not a single character"));
  EXPECT_THAT(pre_tokenizer(R"({"type": "FixedLength", "length": 0})"),
              HasSubstr("'length' is not 1 or more"));
  EXPECT_THAT(decoder(R"({"type": "Strip", "content": " ", "start": -1, "stop": 0})"),
              HasSubstr("'start' is not 0 or more"));
  EXPECT_THAT(
      post_processor(R"({"type": "TemplateProcessing", "single": [], "special_tokens": {}})"),
      HasSubstr("'single' is not a template with one Sequence"));
  EXPECT_THAT(post_processor(R"({"type": "BertProcessing", "sep": ["s", -5], "cls": ["c", 4]})"),
              HasSubstr("'sep' is not made of token ids"));
}

}  // namespace
}  // namespace lazytrain
