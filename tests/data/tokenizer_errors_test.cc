// Broken tokenizer files: one clear error each, and never a crash.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/error.h"
#include "core/file.h"
#include "data/tokenizer/sentencepiece_model.h"
#include "data/tokenizer/tokenizer.h"

namespace lazytrain {
namespace {

std::string ErrorOf(const std::string& json) {
  try {
    Tokenizer::FromJson(json, "x.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// A model of these merges, with other fields of the file behind it.
std::string File(const std::string& vocab, const std::string& merges,
                 const std::string& others = "") {
  return R"({"model": {"type": "BPE", "vocab": )" + vocab + R"(, "merges": )" + merges + "}" +
         others + "}";
}

TEST(TokenizerErrorTest, NamesTheFileAndWhatIsWrong) {
  const std::string vocab = R"({"a": 0, "b": 1, "ab": 2})";
  const std::string added = R"("single_word": false, "lstrip": false, "rstrip": false,
                               "normalized": false, "special": true)";
  const std::pair<std::string, const char*> cases[] = {
      {"", "x.json:1: malformed JSON"},
      {"{\n\"a\": 1,\n}", "x.json:3: malformed JSON"},
      {"[]", "x.json: expected a JSON object, found array"},
      {"{}", "x.json: the field 'model' is missing"},
      {R"({"model": 3})", "x.json: model: expected a JSON object, found number"},
      {R"({"model": {}})", "x.json: model: the field 'type' is missing"},
      {R"({"model": {"type": "WordPiece", "vocab": {}}})",
       "x.json: model: the model 'WordPiece' is not supported (known: BPE)"},
      {R"({"model": {"type": "BPE", "merges": []}})", "x.json: model: 'vocab' is missing"},
      {R"({"model": {"type": "BPE", "vocab": {}}})", "x.json: model: 'merges' is missing"},
      {File(R"({"a": "b"})", "[]"), "x.json: model.vocab: the id of 'a' is not a whole number"},
      {File(R"({"a": 1.5})", "[]"), "the id of 'a' is not a whole number"},
      {File(R"({"a": [1]})", "[]"), "the id of 'a' is not a whole number"},
      {File(R"({"a": -1})", "[]"), "'vocab' gives 'a' the id -1, which is out of range"},
      {File(R"({"a": 3000000000})", "[]"), "'a' the id 3000000000, which is out of range"},
      {File(R"({"a": 99999999999999999999})", "[]"), "the id of 'a' is not a whole number"},
      {File(R"({"a": 1, "b": 1})", "[]"), "'vocab' gives both 'a' and 'b' the id 1"},
      {File(R"({"a": 1, "a": 2})", "[]"), "'vocab' has 'a' twice"},
      {File(vocab, R"(["a"])"), "model.merges: entry 0 ('a') is not two tokens"},
      {File(vocab, R"(["a b", "a b c"])"), "model.merges: entry 1 ('a b c') is not two tokens"},
      {File(vocab, R"([["a"]])"), "model.merges: entry 0 is not a pair of strings"},
      {File(vocab, R"([["a", 1]])"), "model.merges: entry 0 is not a pair of strings"},
      {File(vocab, R"([["a", "b", "c"]])"), "model.merges: entry 0 is not a pair of strings"},
      {File(vocab, R"([["a", ["b"]]])"), "model.merges: entry 0 is not a pair of strings"},
      {File(vocab, "[7]"), "model.merges: entry 0 is not a pair of strings"},
      {File(vocab, R"(["a x"])"), "'merges', entry 0: 'x' is not in the vocabulary"},
      {File(vocab, R"(["b a"])"), "'merges', entry 0: 'ba' is not in the vocabulary"},
      // No token can be made of itself: a merge is always longer than its parts, or of nothing.
      {File(R"({"a": 0, "": 1})", R"([["a", ""]])"), "'a' and '' cannot be merged"},
      {R"({"model": {"type": "BPE", "vocab": {}, "merges": [], "dropout": 0.1}})",
       "x.json: model: 'dropout' is 0.1"},
      {R"({"model": {"type": "BPE", "vocab": {}, "merges": [], "unk_token": 1}})",
       "x.json: model: 'unk_token' is not a string"},
      {R"({"model": {"type": "BPE", "vocab": {}, "merges": [], "fuse_unk": 1}})",
       "x.json: model: 'fuse_unk' is not true or false"},
      {File(vocab, "[]", R"(, "added_tokens": {})"), "x.json: 'added_tokens' is not an array"},
      {File(vocab, "[]", R"(, "added_tokens": [{"id": 3}])"),
       "x.json: added_tokens: the field 'content' is missing"},
      {File(vocab, "[]", R"(, "added_tokens": [{"id": 3, "content": "x"}])"),
       "x.json: added_tokens: the field 'single_word' is missing"},
      {File(vocab, "[]", R"(, "added_tokens": [{"id": 9, "content": "x", )" + added + "}]"),
       "added_tokens: 'x' has the id 9, but the vocabulary puts it at 3"},
      {File(vocab, "[]", R"(, "added_tokens": [{"id": -9, "content": "x", )" + added + "}]"),
       "added_tokens: 'id' is not between 0 and 2147483647"},
      {File(vocab, "[]", R"(, "added_tokens": [{"id": 1, "content": "a", )" + added + "}]"),
       "added_tokens: 'a' has the id 1, but the vocabulary puts it at 0"},
      {File(vocab, "[]", R"(, "normalizer": {"type": "Foo"})"),
       "x.json: normalizer: the normalizer 'Foo' is not supported"},
      {File(vocab, "[]", R"(, "pre_tokenizer": {"type": "Foo"})"),
       "x.json: pre_tokenizer: the pre_tokenizer 'Foo' is not supported"},
      {File(vocab, "[]", R"(, "decoder": {"type": "Foo"})"),
       "x.json: decoder: the decoder 'Foo' is not supported"},
      {File(vocab, "[]", R"(, "post_processor": {"type": "BertProcessing", "sep": ["s", 50],
                                                 "cls": ["a", 0]})"),
       "x.json: post_processor: there is no token with the id 50"},
      {std::string(100000, '['), "x.json: malformed JSON: nested more than 200 levels deep"},
      {R"({"model": {"vocab": {"a": )" + std::string(100000, '['), "is not a whole number"},
  };
  for (const auto& [json, message] : cases) {
    const std::string error = ErrorOf(json);
    EXPECT_THAT(error, testing::StartsWith("x.json:")) << json.substr(0, 200);
    EXPECT_THAT(error, testing::HasSubstr(message)) << json.substr(0, 200);
    EXPECT_THAT(error, testing::Not(testing::HasSubstr("\n")));
  }
}

TEST(TokenizerErrorTest, NamesAMissingFile) {
  EXPECT_THROW(Tokenizer::FromFile("/nonexistent/tokenizer.json"), Error);
  EXPECT_THROW(Tokenizer::FromFile("/nonexistent/tokenizer.model"), Error);
}

TEST(TokenizerErrorTest, ReportsAnUnknownTokenThatIsNone) {
  const Tokenizer tokenizer = Tokenizer::FromJson(
      R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "unk_token": "<unk>"}})", "x");
  EXPECT_EQ(tokenizer.Encode("a", false), (std::vector<int32_t>{0}));
  EXPECT_THROW(tokenizer.Encode("b", false), Error);
}

// A small file with every kind of component.
const char* const kWholeFile = R"({
  "added_tokens": [
    {"id": 9, "content": "<s>", "single_word": false, "lstrip": true, "rstrip": true,
     "normalized": false, "special": true},
    {"id": 10, "content": "and", "single_word": true, "lstrip": false, "rstrip": false,
     "normalized": true, "special": false}],
  "normalizer": {"type": "Sequence", "normalizers": [
    {"type": "NFC"}, {"type": "Lowercase"}, {"type": "Strip", "strip_left": true,
    "strip_right": false}, {"type": "Prepend", "prepend": "x"},
    {"type": "Replace", "pattern": {"Regex": "[0-9]{2,3}+"}, "content": "1"}]},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": "(?i:'s)|[^\\s\\p{L}]+|\\s+(?!\\S)|\\w{1,3}"},
     "behavior": "MergedWithPrevious", "invert": false},
    {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": true},
    {"type": "Digits", "individual_digits": true},
    {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}]},
  "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A"}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [9], "tokens": ["<s>"]}}},
  "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 1}]},
  "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
    "vocab": {"<unk>": 0, "a": 1, "b": 2, "ab": 3, "e": 4, "abe": 5, "_": 6, "1": 7, "_a": 8},
    "merges": [["a", "b"], ["ab", "e"], "_ a"]}})";

// Changes bytes, removes or doubles a stretch, or puts a value of another type in.
void Mutate(std::string& text, std::mt19937& random) {
  const char* values[] = {"null", "-1",   "1e99",       "{}", "[]",
                          "\"\"", "true", "4294967296", "[[", "9"};
  const auto at = [&] { return random() % (text.size() + 1); };
  for (size_t i = 0, count = 1 + random() % 8 / 7; i < count; ++i) {
    const size_t begin = at();
    const size_t length = std::min<size_t>(random() % 12, text.size() - begin);
    switch (random() % 5) {
      case 0:
        if (begin < text.size()) text[begin] = static_cast<char>(random() % 256);
        break;
      case 1:
        text.erase(begin, length);
        break;
      case 2:
        text.insert(at(), text.substr(begin, length));
        break;
      case 3: {
        // The value behind a colon.
        const size_t colon = text.find(':', begin);
        if (colon == std::string::npos) break;
        const size_t end = text.find_first_of(",}]", colon);
        text.replace(colon + 1, end == std::string::npos ? end : end - colon - 1,
                     values[random() % std::size(values)]);
        break;
      }
      default:
        text.insert(begin, 1, "{}[]\",:\\0-"[random() % 10]);
    }
  }
}

TEST(TokenizerFuzzTest, RefusesOrUsesEveryMutatedFile) {
  ASSERT_EQ(ErrorOf(kWholeFile), "no error");
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = kWholeFile;
    Mutate(text, random);
    try {
      const Tokenizer tokenizer = Tokenizer::FromJson(text, "x.json");
      const std::vector<int32_t> ids = tokenizer.Encode("<s> and Abe 12's \xC3\xA9 ab", true);
      tokenizer.Decode(ids, true);
      tokenizer.Decode(std::vector<int32_t>{-1, 0, 5, 8, 9, 10, 1000000}, false);
      for (const int32_t id : ids) EXPECT_LT(id, tokenizer.vocab_size());
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 2900);  // else the mutations never reach what lies behind the reading
}

TEST(TokenizerFuzzTest, RefusesOrUsesEveryMutatedSentencePieceModel) {
  std::string model = ReadFile(Path(LAZYTRAIN_SHARED_DIR) / "data" / "tokenizers" /
                               "Mistral-7B-Instruct-v0.2" / "tokenizer.model");
  std::mt19937 random(9);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string text = model.substr(0, random() % 3000);
    Mutate(text, random);
    try {
      ParseSentencePieceModel(text, "x.model");
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace lazytrain
