#include "data/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/temp_folder.h"

namespace lazytrain {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class RegistryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ / "many");
    for (const char* name : {"one.jsonl", "many/b.txt", "many/a.txt"}) {
      WriteFile(folder_ / name, "");
    }
  }

  void Registry(const std::string& text) { WriteFile(folder_ / "dataset_info.json", text); }

  std::string FindError(const std::string& name) {
    try {
      FindDataset(name, folder_);
    } catch (const Error& error) {
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }

  TempFolder temp_;
  const Path folder_ = temp_.path();
};

TEST_F(RegistryTest, FilesFoldersAndColumns) {
  Registry(R"({"one": {"file_name": "one.jsonl",
                       "columns": {"query": "question", "response": "answer"}},
               "many": {"file_name": "many", "columns": {"text": "body"}}})");
  const DatasetSource one = FindDataset("one", folder_);
  EXPECT_THAT(one.files, ElementsAre(folder_ / "one.jsonl"));
  EXPECT_EQ(one.query_field, "question");
  EXPECT_EQ(one.response_field, "answer");
  EXPECT_FALSE(one.text_field.has_value());
  const DatasetSource many = FindDataset("many", folder_);
  EXPECT_THAT(many.files, ElementsAre(folder_ / "many" / "a.txt", folder_ / "many" / "b.txt"));
  EXPECT_EQ(many.text_field, "body");
  EXPECT_THAT(DatasetAt(folder_ / "many").files,
              ElementsAre(folder_ / "many" / "a.txt", folder_ / "many" / "b.txt"));
}

TEST_F(RegistryTest, UnknownNamesGetTheNearest) {
  Registry(R"({"metamath": {}, "gsm8k_test": {}, "gsm8k": {}, "identity": {}, "alpaca_en": {}})");
  EXPECT_THAT(FindError("GSM8"), AllOf(HasSubstr("dataset_info.json: has no data set 'GSM8'"),
                                       HasSubstr("there: 'gsm8k'"), Not(HasSubstr("alpaca_en"))));
  Registry("{}");
  EXPECT_THAT(FindError("gsm8k"), HasSubstr("empty"));
}

TEST_F(RegistryTest, BrokenRegistries) {
  EXPECT_THAT(FindError("one"),
              AllOf(HasSubstr("dataset_info.json: is missing"), HasSubstr("dataset.dataset_dir")));
  Registry("{\n\"one\": }");
  EXPECT_THAT(FindError("one"), HasSubstr("dataset_info.json:2"));
  Registry("[]");
  EXPECT_THAT(FindError("one"), HasSubstr("must be an object"));
  const auto error = [&](const std::string& entry) {
    Registry("{\"one\": " + entry + "}");
    const std::string text = FindError("one");
    EXPECT_THAT(text, HasSubstr("dataset_info.json: data set 'one'"));
    return text;
  };
  EXPECT_THAT(error(R"({"hf_hub_url": "x/y"})"), HasSubstr("no 'file_name'"));
  EXPECT_THAT(error("3"), HasSubstr("no 'file_name'"));
  EXPECT_THAT(error(R"({"file_name": ""})"), HasSubstr("non-empty string"));
  EXPECT_THAT(error(R"({"file_name": "one.jsonl", "formatting": "sharegpt"})"),
              HasSubstr("key 'formatting' is not supported"));
  EXPECT_THAT(error(R"({"file_name": "one.jsonl", "columns": {"prompt": "instruction"}})"),
              HasSubstr("column 'prompt' is not supported"));
  EXPECT_THAT(error(R"({"file_name": "one.jsonl", "columns": {"text": 1}})"),
              HasSubstr("column 'text' must be a non-empty string"));
  EXPECT_THAT(error(R"({"file_name": "one.jsonl", "columns": 1})"), HasSubstr("must be an object"));
  Registry(R"({"one": {"file_name": "gone.jsonl"}})");
  EXPECT_THAT(FindError("one"), HasSubstr("gone.jsonl: no such file"));
}

}  // namespace
}  // namespace lazytrain
