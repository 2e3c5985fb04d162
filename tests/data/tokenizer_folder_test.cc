// Tokenizers of model folders, and tokenizing JSON lines.
#include "data/tokenizer/tokenizer_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "core/error.h"
#include "core/file.h"
#include "data/tokenizer/tokenize_lines.h"
#include "tests/temp_folder.h"

namespace lazytrain {
namespace {

const Path kShared = LAZYTRAIN_SHARED_DIR;

class TokenizerFolderTest : public testing::Test {
 protected:
  TokenizerFolderTest() {
    Write("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "<s>": 2,
                                "</s>": 3, "ab": 4}, "merges": ["a b"]}, "added_tokens": [
                                {"id": 2, "content": "<s>", "single_word": false, "lstrip": false,
                                 "rstrip": false, "normalized": false, "special": true}]})");
  }

  void Write(const char* name, const std::string& text) const { WriteFile(folder_ / name, text); }

  std::string ErrorOfLoad() const {
    try {
      LoadTokenizer(folder_);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  // What TokenizeLines writes, or its error.
  std::string Lines(TokenizeOptions options, const std::string& input) const {
    if (options.model.empty()) options.model = folder_;
    if (options.input.empty()) options.input = "-";
    std::istringstream in(input);
    std::ostringstream out;
    try {
      TokenizeLines(options, in, out);
    } catch (const Error& error) {
      return std::string(error.kind() == ErrorKind::kUsage ? "usage: " : "error: ") + error.what();
    }
    return out.str();
  }

  TempFolder temp_;
  const Path folder_ = temp_.path();
};

TEST_F(TokenizerFolderTest, ReadsNamesAndTemplates) {
  Write("tokenizer_config.json", R"({"bos_token": {"content": "<s>"}, "eos_token": "</s>",
        "pad_token": "<pad>", "add_bos_token": true, "chat_template": "T"})");
  const TokenizerFolder loaded = LoadTokenizer(folder_);
  EXPECT_EQ(loaded.bos->text, "<s>");
  EXPECT_EQ(loaded.bos->id, 2);
  EXPECT_EQ(loaded.eos->id, 3);
  EXPECT_FALSE(loaded.pad.has_value());
  EXPECT_FALSE(loaded.unk.has_value());
  EXPECT_EQ(loaded.add_bos_token, true);
  EXPECT_EQ(loaded.add_eos_token, std::nullopt);
  EXPECT_EQ(loaded.chat_templates.at("default"), "T");
  EXPECT_TRUE(loaded.tokenizer.IsSpecial(2));
  EXPECT_FALSE(loaded.tokenizer.IsSpecial(3));
  EXPECT_EQ(loaded.tokenizer.vocab_size(), 5);
  EXPECT_EQ(loaded.tokenizer.TokenToId("ab"), 4);
  EXPECT_EQ(loaded.tokenizer.IdToToken(4), "ab");
  EXPECT_EQ(loaded.tokenizer.IdToToken(5), std::nullopt);
  EXPECT_EQ(loaded.tokenizer.IdToToken(-1), std::nullopt);
}

TEST_F(TokenizerFolderTest, ReadsTemplatesWhereTheyAre) {
  Write("chat_template.json", R"({"chat_template": "from json"})");
  EXPECT_EQ(LoadTokenizer(folder_).chat_templates.at("default"), "from json");
  Write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "one"},
                                     {"name": "tool_use", "template": "two"}]})");
  EXPECT_EQ(LoadTokenizer(folder_).chat_templates.at("tool_use"), "two");
  Write("chat_template.jinja", "from jinja");
  EXPECT_EQ(LoadTokenizer(folder_).chat_templates.at("default"), "from jinja");
}

TEST_F(TokenizerFolderTest, TakesNamesFromTheMapIfTheConfigHasNone) {
  EXPECT_FALSE(LoadTokenizer(folder_).bos.has_value());
  Write("special_tokens_map.json", R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}})");
  EXPECT_EQ(LoadTokenizer(folder_).bos->id, 2);
  EXPECT_EQ(LoadTokenizer(folder_).eos->id, 3);
}

TEST_F(TokenizerFolderTest, NamesTheFileThatIsWrong) {
  using testing::HasSubstr;
  Write("tokenizer_config.json", R"({"bos_token": "<x>"})");
  EXPECT_THAT(ErrorOfLoad(), HasSubstr("tokenizer_config.json: bos_token is '<x>', which is not"));
  Write("tokenizer_config.json", R"({"bos_token": 3})");
  EXPECT_THAT(ErrorOfLoad(), HasSubstr("tokenizer_config.json: 'bos_token' is not a string"));
  Write("tokenizer_config.json", "[]");
  EXPECT_THAT(ErrorOfLoad(), HasSubstr("tokenizer_config.json: expected a JSON object"));
  Write("tokenizer_config.json", R"({"chat_template": 3})");
  EXPECT_THAT(ErrorOfLoad(), HasSubstr("'chat_template' is not a string"));
  std::filesystem::remove(folder_ / "tokenizer_config.json");
  std::filesystem::remove(folder_ / "tokenizer.json");
  EXPECT_THAT(ErrorOfLoad(), HasSubstr("neither tokenizer.json nor tokenizer.model is there"));
}

TEST_F(TokenizerFolderTest, FallsBackToTheSentencePieceModel) {
  const Path mistral = kShared / "data" / "tokenizers" / "Mistral-7B-Instruct-v0.2";
  std::filesystem::remove(folder_ / "tokenizer.json");
  std::filesystem::copy(mistral / "tokenizer.model", folder_ / "tokenizer.model");
  std::filesystem::copy(mistral / "tokenizer_config.json", folder_ / "tokenizer_config.json");
  const TokenizerFolder loaded = LoadTokenizer(folder_);
  EXPECT_EQ(loaded.bos->id, 1);
  EXPECT_EQ(loaded.eos->id, 2);
  EXPECT_EQ(loaded.tokenizer.Encode("Hello", true), (std::vector<int32_t>{1, 22557}));
}

TEST_F(TokenizerFolderTest, TokenizesLines) {
  EXPECT_EQ(Lines({}, "{\"text\": \"ab<s>\", \"other\": 1}\n{\"text\": \"\"}\n"),
            "{\"ids\": [4, 2]}\n{\"ids\": []}\n");
  EXPECT_EQ(Lines({.pieces = true}, "{\"text\": \"ab<s>\\\"\"}"),
            "{\"pieces\": [\"ab\", \"<s>\", \"\\\"\"]}\n");
  EXPECT_EQ(Lines({.decode = true}, "{\"ids\": [4, 2, 99, -1, 2147483648, 0]}"),
            "{\"text\": \"ab <s> a\"}\n");
  EXPECT_EQ(Lines({.decode = true, .skip_special = true}, "{\"ids\": [4, 2]}"),
            "{\"text\": \"ab\"}\n");
  // Broken UTF-8 is repaired first.
  EXPECT_EQ(Lines({.pieces = true}, "{\"text\": \"\xFF\"}"), "{\"pieces\": [\"\xEF\xBF\xBD\"]}\n");
  Write("in.jsonl", "{\"text\": \"b\"}\n");
  EXPECT_EQ(Lines({.input = folder_ / "in.jsonl"}, ""), "{\"ids\": [1]}\n");
  EXPECT_EQ(Lines({.file = "tokenizer.json"}, "{\"text\": \"b\"}\n"), "{\"ids\": [1]}\n");
}

TEST_F(TokenizerFolderTest, AddsSpecialTokensIfAskedTo) {
  TokenizeOptions options;
  options.model = kShared / "data" / "models" / "TinyStories-656K";
  options.special = true;
  EXPECT_EQ(Lines(options, "{\"text\": \"a\"}"), "{\"ids\": [1, 85]}\n");
}

TEST_F(TokenizerFolderTest, NamesTheLineThatIsWrong) {
  using testing::StartsWith;
  const auto after_good = [&](TokenizeOptions options, const char* good, const char* line) {
    return Lines(std::move(options), std::string(good) + "\n" + line + "\n");
  };
  const char* text = "{\"text\": \"a\"}";
  EXPECT_THAT(after_good({}, text, "{"), StartsWith("error: standard input:2: malformed JSON"));
  EXPECT_THAT(after_good({}, text, ""), StartsWith("error: standard input:2: malformed JSON"));
  EXPECT_THAT(after_good({}, text, "[]"), StartsWith("error: standard input:2: expected a JSON"));
  EXPECT_THAT(after_good({}, text, "{}"),
              StartsWith("error: standard input:2: the field 'text' is missing"));
  EXPECT_THAT(after_good({}, text, "{\"text\": 1}"),
              StartsWith("error: standard input:2: 'text' is not a string"));
  EXPECT_THAT(after_good({.decode = true}, "{\"ids\": []}", "{\"ids\": [1.5]}"),
              StartsWith("error: standard input:2: 'ids' is not made of whole numbers"));
  EXPECT_THAT(Lines({.input = folder_ / "none"}, ""), testing::HasSubstr("none: cannot open it"));
  EXPECT_THAT(Lines({.input = folder_}, ""), testing::HasSubstr("it is a folder"));
}

TEST_F(TokenizerFolderTest, RefusesOptionsThatExcludeEachOther) {
  using testing::StartsWith;
  EXPECT_THAT(Lines({.special = true, .decode = true}, ""), StartsWith("usage: --decode excludes"));
  EXPECT_THAT(Lines({.special = true, .pieces = true}, ""), StartsWith("usage: --pieces excludes"));
  EXPECT_THAT(Lines({.skip_special = true}, ""), StartsWith("usage: --skip-special is for"));
}

TEST_F(TokenizerFolderTest, ReportsAFullDisk) {
  std::istringstream in("{\"text\": \"a\"}\n");
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  TokenizeOptions options;
  options.model = folder_;
  options.input = "-";
  EXPECT_THROW(TokenizeLines(options, in, out), Error);
}

}  // namespace
}  // namespace lazytrain
