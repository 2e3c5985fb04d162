// Every tokenizer of the reference data against the ids and texts of the Hugging Face library.
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "core/file.h"
#include "core/json.h"
#include "data/tokenizer/tokenize_lines.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/utf8.h"

namespace lazytrain {
namespace {

const Path kShared = LAZYTRAIN_SHARED_DIR;
const Path kCases = kShared / "tokenizer_cases";

std::vector<Json> ReadLines(const Path& path) {
  const std::string text = ReadFile(path);
  std::vector<Json> rows;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    rows.push_back(ParseJson(text.substr(begin, end - begin), path.string(),
                             static_cast<int64_t>(rows.size()) + 1));
    begin = end + 1;
  }
  return rows;
}

std::map<int64_t, std::string> ReadTexts(const Path& path) {
  std::map<int64_t, std::string> texts;
  for (const Json& row : ReadLines(path)) texts[row.at("i")] = row.at("text");
  return texts;
}

std::vector<int32_t> Ids(const Json& json) {
  // The reference has ids above 2^31, which are ids of no token here as well.
  std::vector<int32_t> ids;
  for (const Json& id : json) {
    ids.push_back(id.get<int64_t>() > INT32_MAX ? -1 : id.get<int32_t>());
  }
  return ids;
}

void ExpectDecodes(const Tokenizer& tokenizer, const Json& row, const std::string& text) {
  const std::vector<int32_t> ids = Ids(row.at("ids"));
  const std::string decoded = row.value("decoded", text);
  EXPECT_EQ(tokenizer.Decode(ids, false), decoded) << row.dump();
  EXPECT_EQ(tokenizer.Decode(ids, true), row.value("decoded_skip", decoded)) << row.dump();
}

struct Case {
  const char* name;
  const char* folder;  // below the shared folder
};

class TokenizerReferenceTest : public testing::TestWithParam<Case> {};

TEST_P(TokenizerReferenceTest, EncodesAndDecodesEveryText) {
  const Tokenizer tokenizer = Tokenizer::FromFile(kShared / GetParam().folder / "tokenizer.json");
  const std::map<int64_t, std::string> texts = ReadTexts(kCases / "texts.jsonl");
  const std::vector<Json> rows =
      ReadLines(kCases / "ids" / (std::string(GetParam().name) + ".jsonl"));
  EXPECT_EQ(rows.size(), texts.size());
  EXPECT_GT(rows.size(), 400U);
  for (const Json& row : rows) {
    const std::string& text = texts.at(row.at("i"));
    const std::vector<int32_t> ids = Ids(row.at("ids"));
    EXPECT_EQ(tokenizer.Encode(text, false), ids) << text;
    EXPECT_EQ(tokenizer.Encode(text, true),
              row.contains("ids_special") ? Ids(row["ids_special"]) : ids)
        << text;
    ExpectDecodes(tokenizer, row, text);
  }
}

TEST_P(TokenizerReferenceTest, DecodesArbitraryIds) {
  const Tokenizer tokenizer = Tokenizer::FromFile(kShared / GetParam().folder / "tokenizer.json");
  const std::vector<Json> rows =
      ReadLines(kCases / "decode" / (std::string(GetParam().name) + ".jsonl"));
  EXPECT_GT(rows.size(), 40U);
  for (const Json& row : rows) ExpectDecodes(tokenizer, row, "");
}

INSTANTIATE_TEST_SUITE_P(
    All, TokenizerReferenceTest,
    testing::Values(Case{"TinyStories-656K", "data/models/TinyStories-656K"},
                    Case{"Qwen2.5", "data/tokenizers/Qwen2.5"},
                    Case{"Qwen3", "data/tokenizers/Qwen3"},
                    Case{"GPT-OSS", "data/tokenizers/GPT-OSS"},
                    Case{"Mistral-Nemo", "data/tokenizers/Mistral-Nemo"},
                    Case{"Mistral-7B-Instruct-v0.2", "data/tokenizers/Mistral-7B-Instruct-v0.2"}),
    [](const testing::TestParamInfo<Case>& param) {
      std::string name = param.param.name;
      std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
      return name;
    });

TEST(TokenizerSyntheticReferenceTest, ObeysTheFlagsOfAddedTokens) {
  const Tokenizer tokenizer = Tokenizer::FromFile(kCases / "synthetic" / "tokenizer.json");
  const std::map<int64_t, std::string> texts = ReadTexts(kCases / "synthetic" / "texts.jsonl");
  const std::vector<Json> rows = ReadLines(kCases / "synthetic" / "ids" / "flags.jsonl");
  EXPECT_EQ(rows.size(), texts.size());
  EXPECT_GT(rows.size(), 200U);
  for (const Json& row : rows) {
    const std::string& text = texts.at(row.at("i"));
    EXPECT_EQ(tokenizer.Encode(text, false), Ids(row.at("ids"))) << text;
    ExpectDecodes(tokenizer, row, text);
  }
}

TEST(SentencePieceReferenceTest, EncodesAndDecodesEveryText) {
  const Tokenizer tokenizer = Tokenizer::FromFile(kShared / "data" / "tokenizers" /
                                                  "Mistral-7B-Instruct-v0.2" / "tokenizer.model");
  const std::map<int64_t, std::string> texts = ReadTexts(kCases / "texts.jsonl");
  const std::vector<Json> rows =
      ReadLines(kCases / "ids" / "Mistral-7B-Instruct-v0.2.sentencepiece.jsonl");
  EXPECT_GT(rows.size(), 400U);
  for (const Json& row : rows) {
    const std::string& text = texts.at(row.at("i"));
    EXPECT_EQ(tokenizer.Encode(text, false), Ids(row.at("ids"))) << text;
    EXPECT_EQ(tokenizer.Decode(Ids(row.at("ids")), false), row.value("decoded", text))
        << row.dump();
  }
}

TEST(PieceReferenceTest, CutsByTheRegexOfAFolderWithoutVocabulary) {
  const std::map<int64_t, std::string> texts = ReadTexts(kCases / "texts.jsonl");
  const std::vector<Json> rows = ReadLines(kCases / "pretok" / "Qwen3.5.jsonl");
  EXPECT_GT(rows.size(), 380U);
  std::stringstream lines;
  for (const Json& row : rows) lines << Json{{"text", texts.at(row.at("i"))}}.dump() << '\n';
  std::stringstream out;
  TokenizeOptions options;
  options.model = kShared / "data" / "tokenizers" / "Qwen3.5";
  options.pieces = true;
  options.input = "-";
  TokenizeLines(options, lines, out);
  for (const Json& row : rows) {
    std::string line;
    ASSERT_TRUE(std::getline(out, line));
    std::vector<size_t> lengths;
    const Json answer = ParseJson(line, "out");
    for (const Json& piece : answer.at("pieces")) {
      lengths.push_back(ToCodePoints(piece.get<std::string>()).size());
    }
    EXPECT_EQ(lengths, row.at("lengths").get<std::vector<size_t>>()) << line;
  }
}

}  // namespace
}  // namespace lazytrain
