#include "data/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"
#include "tests/temp_folder.h"

namespace lazytrain {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class ReaderTest : public ::testing::Test {
 protected:
  std::vector<RawExample> Read(const std::string& name, const std::string& content) {
    WriteFile(folder_ / name, content);
    std::vector<RawExample> examples;
    ReadExamples(folder_ / name, [&](RawExample e) { examples.push_back(std::move(e)); });
    return examples;
  }

  std::string ReadError(const std::string& name, const std::string& content) {
    try {
      Read(name, content);
    } catch (const Error& error) {
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }

  std::string FilesError(const Path& path) {
    try {
      DataFiles(path);
    } catch (const Error& error) {
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }

  TempFolder temp_;
  const Path folder_ = temp_.path();
};

std::vector<std::string> Texts(const std::vector<RawExample>& examples) {
  std::vector<std::string> texts;
  texts.reserve(examples.size());
  for (const RawExample& e : examples) {
    texts.push_back(fmt::format("{}|{}", e.line, e.is_text() ? e.text : e.fields.dump()));
  }
  return texts;
}

TEST_F(ReaderTest, TextSplitsAtBlankLines) {
  EXPECT_THAT(Texts(Read("a.txt", "\n \t\none\n  two\n\n\t\r\n\nthree\nfour")),
              ElementsAre("3|one\n  two", "8|three\nfour"));
  EXPECT_THAT(Texts(Read("a.txt", "\xef\xbb\xbfone\r\ntwo\r\n\r\nthree\r\n")),
              ElementsAre("1|one\r\ntwo", "4|three"));
  EXPECT_THAT(Texts(Read("a.TXT", "x\n\n\ny\n\n")), ElementsAre("1|x", "4|y"));
  EXPECT_TRUE(Read("a.txt", "").empty());
  EXPECT_TRUE(Read("a.txt", " \n\n  ").empty());
  EXPECT_THAT(Read("a.txt", "\n\nx")[0].place(), EndsWith("/a.txt:3"));
}

TEST_F(ReaderTest, TextMustBeUtf8) {
  EXPECT_THAT(ReadError("a.txt", "fine\n\nna\xefve\n"),
              AllOf(HasSubstr("a.txt:3"), HasSubstr("UTF-8")));
}

TEST_F(ReaderTest, JsonLines) {
  EXPECT_THAT(Texts(Read("a.jsonl", "{\"b\":1,\"a\":\"x\"}\n\n  \r\n{\"text\":\"y\"}\r\n{}")),
              ElementsAre(R"(1|{"b":1,"a":"x"})", R"(4|{"text":"y"})", "5|{}"));
  EXPECT_TRUE(Read("a.jsonl", "\n\n").empty());
  EXPECT_THAT(ReadError("a.jsonl", "{}\n\n{\"a\":\n{}"), HasSubstr("a.jsonl:3: malformed JSON"));
  EXPECT_THAT(ReadError("a.jsonl", "{}\n[1]\n"), HasSubstr("a.jsonl:2: is a JSON array"));
  EXPECT_THAT(ReadError("a.jsonl", "{} {}\n"), HasSubstr("a.jsonl:1"));
}

TEST_F(ReaderTest, JsonArray) {
  const std::string text = R"([
  {"text": "a } ] \" \\"},

  {"x": {"y": [{}]}}, {"text":
    "z"}
]
)";
  EXPECT_THAT(
      Texts(Read("a.json", text)),
      ElementsAre(R"(2|{"text":"a } ] \" \\"})", R"(4|{"x":{"y":[{}]}})", R"(4|{"text":"z"})"));
  EXPECT_TRUE(Read("a.json", " [ ] ").empty());
}

TEST_F(ReaderTest, BrokenJsonArraysNameTheLine) {
  EXPECT_THAT(ReadError("a.json", ""), AllOf(HasSubstr("a.json:1"), HasSubstr("ends where")));
  EXPECT_THAT(ReadError("a.json", "\n{\"a\":1}"),
              AllOf(HasSubstr("a.json:2"), HasSubstr(".jsonl")));
  EXPECT_THAT(ReadError("a.json", "3"), HasSubstr("a.json:1"));
  EXPECT_THAT(ReadError("a.json", "[\n{},\n]"), HasSubstr("a.json:3"));
  EXPECT_THAT(ReadError("a.json", "[\n{}\n{}]"), HasSubstr("a.json:3"));
  EXPECT_THAT(ReadError("a.json", "[\n{}\n"),
              AllOf(HasSubstr("a.json:3"), HasSubstr("ends where")));
  EXPECT_THAT(ReadError("a.json", "[\n{\"a\":\n"), HasSubstr("malformed JSON"));
  EXPECT_THAT(ReadError("a.json", "[\n{\"a\":\nx}]"), HasSubstr("a.json:3: malformed JSON"));
  EXPECT_THAT(ReadError("a.json", "[{}]\n{}"), HasSubstr("a.json:2"));
  EXPECT_THAT(ReadError("a.json", "[\n1]"), HasSubstr("a.json:2"));
}

// Cut anywhere, an array is refused; whole, it gives what a JSON parser gives.
TEST_F(ReaderTest, JsonArrayAgreesWithTheParser) {
  Random random(5);
  const std::vector<std::string> pieces = {"a", "\\", "\"", "{",        "}",
                                           "[", "]",  "\n", "\xc3\xa9", ","};
  for (int round = 0; round < 100; ++round) {
    Json array = Json::array();
    for (int64_t i = random.Between(1, 5); i > 0; --i) {
      std::string value;
      for (int64_t k = random.Between(0, 8); k > 0; --k)
        value += pieces[random.Below(pieces.size())];
      array.push_back({{"text", value}, {value, Json::array({value, {{"k", value}}})}});
    }
    const std::string text = array.dump(random.Below(2) == 0 ? -1 : 1);
    Json read = Json::array();
    for (RawExample& e : Read("a.json", text)) read.push_back(std::move(e.fields));
    EXPECT_EQ(read, array);
    ReadError("a.json", text.substr(0, random.Below(text.size())));
  }
}

TEST_F(ReaderTest, FoldersGiveTheirDataFilesSorted) {
  for (const char* name :
       {"b.txt", "a.jsonl", "c.json", "README.md", ".hidden.txt", "dataset_info.json", "d.csv"}) {
    WriteFile(folder_ / name, "");
  }
  std::filesystem::create_directories(folder_ / "inner.txt");
  EXPECT_THAT(DataFiles(folder_),
              ElementsAre(folder_ / "a.jsonl", folder_ / "b.txt", folder_ / "c.json"));
  EXPECT_THAT(DataFiles(folder_ / "b.txt"), ElementsAre(folder_ / "b.txt"));
}

TEST_F(ReaderTest, WhatCannotBeRead) {
  EXPECT_THAT(FilesError(folder_ / "no.txt"), HasSubstr("no.txt: no such file"));
  EXPECT_THAT(FilesError(folder_), HasSubstr("has no data files"));
  for (const char* name : {"d.csv", "d.parquet", "d.arrow", "d.xyz"}) {
    WriteFile(folder_ / name, "");
    EXPECT_THAT(FilesError(folder_ / name), AllOf(HasSubstr(name), HasSubstr("not supported yet")));
  }
  EXPECT_THAT(FilesError(folder_), AllOf(HasSubstr("d.arrow"), HasSubstr("not supported yet")));
}

TEST_F(ReaderTest, ReadsRealFiles) {
  const Path data = Path(LAZYTRAIN_SHARED_DIR) / "data";
  int64_t count = 0;
  ReadExamples(data / "gsm8k" / "test.jsonl", [&](RawExample e) {
    ++count;
    EXPECT_EQ(e.line, count);
    EXPECT_TRUE(e.fields["question"].is_string());
  });
  EXPECT_EQ(count, 1319);
  count = 0;
  ReadExamples(data / "llamafactory" / "identity.json", [&](RawExample e) {
    ++count;
    EXPECT_TRUE(e.fields.contains("instruction"));
  });
  EXPECT_EQ(count,
            static_cast<int64_t>(ReadJsonFile(data / "llamafactory" / "identity.json").size()));
  std::string joined;
  ReadExamples(data / "tinyshakespeare" / "input.txt", [&](RawExample e) {
    EXPECT_EQ(e.text.find("\n\n"), std::string::npos);
    joined += (joined.empty() ? "" : "\n\n") + e.text;
  });
  // The file separates its scenes by one or two blank lines.
  std::string whole = ReadFile(data / "tinyshakespeare" / "input.txt");
  for (size_t at = 0; (at = whole.find("\n\n\n", at)) != std::string::npos;) whole.erase(at, 1);
  EXPECT_TRUE(joined + "\n" == whole);
}

}  // namespace
}  // namespace lazytrain
