#include "data/examples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "tests/temp_folder.h"

namespace lazytrain {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int32_t kBos = 1;
constexpr int32_t kEos = 2;
constexpr int32_t kNo = kIgnoredLabel;

// One id a byte, but '^' is the begin token and '$' the end token.
class ByteEncoder : public ExampleEncoder {
 public:
  bool adds_bos = true;
  bool adds_eos = false;
  bool has_eos = true;
  int32_t bos_id = kBos;

  std::vector<int32_t> Encode(std::string_view text, bool add_special) const override {
    std::vector<int32_t> ids;
    if (add_special && adds_bos) ids.push_back(bos_id);
    for (const char c : text) ids.push_back(c == '^' ? bos_id : c == '$' ? kEos : c);
    if (add_special && adds_eos) ids.push_back(kEos);
    return ids;
  }
  std::optional<int32_t> bos() const override {
    return adds_bos ? std::optional(bos_id) : std::nullopt;
  }
  std::optional<int32_t> eos() const override {
    return has_eos ? std::optional(kEos) : std::nullopt;
  }
};

RawExample Fields(const std::string& json) {
  return {std::make_shared<const std::string>("d.jsonl"), 7, "", Json::parse(json)};
}

RawExample Text(const std::string& text) {
  return {std::make_shared<const std::string>("d.txt"), 3, text, nullptr};
}

Document Build(const ByteEncoder& encoder, const RawExample& example, ExampleOptions options = {}) {
  return DocumentBuilder(encoder, std::move(options)).Build(example).document;
}

std::string BuildError(const std::string& json) {
  try {
    Build({}, Fields(json));
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(Examples, TextIsTrainedWhole) {
  for (const RawExample& example :
       {Text("ab"), Fields(R"({"text": "ab", "query": "q", "response": "r"})")}) {
    const Document document = Build({}, example);
    EXPECT_THAT(document.input_ids, ElementsAre(kBos, 'a', 'b', kEos));
    EXPECT_EQ(document.labels, document.input_ids);
    EXPECT_EQ(document.trained_tokens(), 3);
  }
}

TEST(Examples, PromptAndResponseAreJoinedAsTheyStand) {
  const RawExample example = Fields(R"({"query": "q:", "response": "no"})");
  const Document document = Build({}, example);
  EXPECT_THAT(document.input_ids, ElementsAre(kBos, 'q', ':', 'n', 'o', kEos));
  EXPECT_THAT(document.labels, ElementsAre(kNo, kNo, kNo, 'n', 'o', kEos));
  EXPECT_EQ(document.trained_tokens(), 3);
  ExampleOptions options;
  options.train_on_prompt = true;
  const Document trained = Build({}, example, options);
  EXPECT_EQ(trained.input_ids, document.input_ids);
  EXPECT_EQ(trained.labels, trained.input_ids);
}

TEST(Examples, FieldsHaveConfiguredNames) {
  ExampleOptions options;
  options.text_field = "body";
  options.query_field = "question";
  options.response_field = "answer";
  EXPECT_THAT(Build({}, Fields(R"({"body": "x", "text": "y"})"), options).input_ids,
              ElementsAre(kBos, 'x', kEos));
  EXPECT_THAT(Build({}, Fields(R"({"answer": "a", "question": "q", "text": "y"})"), options).labels,
              ElementsAre(kNo, kNo, 'a', kEos));
}

TEST(Examples, TheBeginTokenStandsFirstOnce) {
  EXPECT_THAT(Build({}, Text("^a")).input_ids, ElementsAre(kBos, 'a', kEos));
  EXPECT_THAT(Build({}, Text("^^a^^b")).input_ids, ElementsAre(kBos, 'a', kBos, kBos, 'b', kEos));
  EXPECT_THAT(Build({}, Fields(R"({"query": "^q", "response": "^r"})")).input_ids,
              ElementsAre(kBos, 'q', kBos, 'r', kEos));
  ByteEncoder without;
  without.adds_bos = false;
  EXPECT_THAT(Build(without, Text("^^a")).input_ids, ElementsAre(kBos, kBos, 'a', kEos));
  EXPECT_THAT(Build(without, Text("a")).input_ids, ElementsAre('a', kEos));
}

TEST(Examples, TheEndTokenStandsLastOnce) {
  EXPECT_THAT(Build({}, Text("a$")).input_ids, ElementsAre(kBos, 'a', kEos));
  EXPECT_THAT(Build({}, Text("a$b$$")).labels, ElementsAre(kBos, 'a', kEos, 'b', kEos));
  // A post-processor that adds it must not put it between prompt and response.
  ByteEncoder adds;
  adds.adds_eos = true;
  EXPECT_THAT(Build(adds, Text("a")).input_ids, ElementsAre(kBos, 'a', kEos));
  EXPECT_THAT(Build(adds, Fields(R"({"query": "q", "response": "r"})")).input_ids,
              ElementsAre(kBos, 'q', 'r', kEos));
  adds.adds_bos = false;
  EXPECT_THAT(Build(adds, Fields(R"({"query": "q", "response": "r"})")).input_ids,
              ElementsAre('q', 'r', kEos));
  ByteEncoder without;
  without.has_eos = false;
  EXPECT_THAT(Build(without, Text("a")).input_ids, ElementsAre(kBos, 'a'));
  // One token for both ends, as in the GPT-2 family.
  ByteEncoder same;
  same.bos_id = kEos;
  EXPECT_THAT(Build(same, Fields(R"({"query": "q", "response": "r"})")).input_ids,
              ElementsAre(kEos, 'q', 'r', kEos));
}

TEST(Examples, TheEndOfAnUntrainedPromptIsNotTheDocuments) {
  const Document document = Build({}, Fields(R"({"query": "q$", "response": ""})"));
  EXPECT_THAT(document.input_ids, ElementsAre(kBos, 'q', kEos, kEos));
  EXPECT_THAT(document.labels, ElementsAre(kNo, kNo, kNo, kEos));
}

TEST(Examples, TruncationKeepsTheBeginning) {
  const ByteEncoder encoder;
  ExampleOptions options;
  options.max_seq_len = 4;
  const DocumentBuilder builder(encoder, options);
  const auto whole = builder.Build(Text("ab"));
  EXPECT_FALSE(whole.truncated);
  EXPECT_THAT(whole.document.input_ids, ElementsAre(kBos, 'a', 'b', kEos));
  const auto cut = builder.Build(Fields(R"({"query": "qq", "response": "rr"})"));
  EXPECT_TRUE(cut.truncated);
  EXPECT_THAT(cut.document.input_ids, ElementsAre(kBos, 'q', 'q', 'r'));
  EXPECT_THAT(cut.document.labels, ElementsAre(kNo, kNo, kNo, 'r'));
}

TEST(Examples, MissingFieldsAreNamedWithTheirPlace) {
  EXPECT_THAT(
      BuildError(R"({"question": "q", "answer": "a"})"),
      AllOf(HasSubstr("d.jsonl:7: has no field 'query'"), HasSubstr("'question', 'answer'")));
  EXPECT_THAT(BuildError(R"({"query": "q"})"),
              AllOf(HasSubstr("d.jsonl:7: has no field 'response'"), HasSubstr("there: 'query'")));
  EXPECT_THAT(BuildError("{}"), HasSubstr("there: none"));
  EXPECT_THAT(BuildError(R"({"text": 3})"), HasSubstr("field 'text' is of type number"));
  EXPECT_THAT(BuildError(R"({"query": "q", "response": null})"),
              HasSubstr("field 'response' is of type null"));
}

class LoadTest : public ::testing::Test {
 protected:
  DatasetSource Source(const std::string& name, const std::string& content) {
    WriteFile(folder_ / name, content);
    return DatasetAt(folder_ / name);
  }

  DocumentSet Load(const std::vector<DatasetSource>& sources, int64_t max_seq_len = 1024,
                   int threads = 2) {
    ThreadPool pool(threads);
    ExampleOptions options;
    options.max_seq_len = max_seq_len;
    return LoadDocuments(sources, encoder_, options, pool);
  }

  std::string LoadError(const std::vector<DatasetSource>& sources, int64_t max_seq_len = 1024) {
    try {
      Load(sources, max_seq_len);
    } catch (const Error& error) {
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }

  ByteEncoder encoder_;
  TempFolder temp_;
  const Path folder_ = temp_.path();
};

TEST_F(LoadTest, MixesSourcesInOrderWithTheirOwnFieldNames) {
  DatasetSource first = Source("a.jsonl", R"({"question": "q", "answer": "a"})");
  first.query_field = "question";
  first.response_field = "answer";
  const DocumentSet set = Load({first, Source("b.txt", "x\n\ny")});
  ASSERT_EQ(set.documents.size(), 3u);
  EXPECT_THAT(set.documents[0].labels, ElementsAre(kNo, kNo, 'a', kEos));
  EXPECT_THAT(set.documents[1].input_ids, ElementsAre(kBos, 'x', kEos));
  EXPECT_THAT(set.documents[2].input_ids, ElementsAre(kBos, 'y', kEos));
  EXPECT_EQ(set.examples, 3);
  EXPECT_EQ(set.dropped + set.truncated, 0);
}

TEST_F(LoadTest, DropsAndCountsWhatHasNothingToTrain) {
  // At 4 tokens: the whole response goes; its end goes; nothing goes.
  const DocumentSet set = Load({Source("a.jsonl", R"({"query": "qqq", "response": "r"}
{"query": "q", "response": "rr"}
{"query": "q", "response": "r"})")},
                               4);
  ASSERT_EQ(set.documents.size(), 2u);
  EXPECT_THAT(set.documents[0].labels, ElementsAre(kNo, kNo, 'r', 'r'));
  EXPECT_EQ(set.examples, 3);
  EXPECT_EQ(set.truncated, 2);
  EXPECT_EQ(set.dropped, 1);
}

TEST_F(LoadTest, EmptyDataSets) {
  EXPECT_THAT(LoadError({Source("a.txt", "\n")}), AllOf(HasSubstr("a.txt: no examples")));
  EXPECT_THAT(LoadError({Source("a.json", "[]"), Source("b.txt", "")}),
              HasSubstr("a.json and 1 more files: no examples"));
  EXPECT_THAT(LoadError({Source("a.txt", "abc")}, 1),
              AllOf(HasSubstr("a.txt: no examples"), HasSubstr("max_seq_len")));
}

TEST_F(LoadTest, ManyExamplesKeepTheirOrderWithAnyNumberOfThreads) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += fmt::format("{}\n\n", i);
  const DatasetSource source = Source("a.txt", text);
  const DocumentSet one = Load({source}, 1024, 1);
  const DocumentSet many = Load({source}, 1024, 3);
  ASSERT_EQ(one.documents.size(), 5000u);
  ASSERT_EQ(many.documents.size(), 5000u);
  EXPECT_THAT(many.documents[4321].input_ids, ElementsAre(kBos, '4', '3', '2', '1', kEos));
  for (size_t i = 0; i < 5000; ++i) {
    EXPECT_EQ(one.documents[i].input_ids, many.documents[i].input_ids);
  }
}

TEST_F(LoadTest, TheFirstBrokenExampleIsReported) {
  std::string text;
  for (int i = 1; i <= 3000; ++i) text += i >= 1500 ? "{\"t\":1}\n" : "{\"text\":\"x\"}\n";
  EXPECT_THAT(LoadError({Source("a.jsonl", text)}), HasSubstr("a.jsonl:1500:"));
}

}  // namespace
}  // namespace lazytrain
