// Text from the story model against reference values of an independent implementation
// (SOURCES.md of the reference data, "TinyStories-656K: reference values").
#include "tests/e2e/program.h"

namespace lazytrain {
namespace {

class Generates : public ProgramTest {
 protected:
  Outcome Generate(const std::string& prompt, Words options) const {
    options.insert(options.begin(),
                   {"generate", "--model", kStoryModel.string(), "--prompt", prompt});
    return Run(options);
  }
  // What a refused cap says would do.
  double SmallestCap(const std::string& prompt, const Words& options) const {
    Words words = options;
    words.insert(words.end(), {"--device-memory-gb", "0.000001"});
    const Outcome refused = Generate(prompt, words);
    ExpectError(refused, 2, {"--device-memory-gb", "too little", "GB would do"});
    const size_t end = refused.err.find(" GB would do");
    const size_t begin = refused.err.rfind(' ', end - 1);
    return std::stod(refused.err.substr(begin, end - begin));
  }
};

const char* const kPrompt = "<|start_story|>Once upon a time, there was a little girl named Lily. ";

// What stands between two marks in the section on this model.
std::string Quoted(const std::string& before, const std::string& after) {
  const std::string sources = ReadFile(Path(LAZYTRAIN_SHARED_DIR) / "data" / "SOURCES.md");
  const size_t section = sources.find("## TinyStories-656K: reference values");
  const size_t found = sources.find(before, section);
  if (section == std::string::npos || found == std::string::npos) {
    throw std::runtime_error("SOURCES.md: no '" + before + "' in the reference values");
  }
  const size_t begin = found + before.size();
  return sources.substr(begin, sources.find(after, begin) - begin);
}

Json Ids(const std::string& words) {
  std::istringstream stream(words);
  Json ids = Json::array();
  for (int64_t id = 0; stream >> id;) ids.push_back(id);
  return ids;
}

TEST_F(Generates, ReferenceContinuation) {
  const std::string reference = kPrompt + Quoted("= \"", "...\"");
  ASSERT_THAT(reference, testing::EndsWith("a yummy cake in the kitchen. "));
  const Outcome outcome = Generate(kPrompt, {});
  ExpectDone(outcome);
  EXPECT_EQ(outcome.out.substr(0, reference.size()), reference);
  EXPECT_EQ(outcome.out.find("<|start_story|>", 1), std::string::npos);
}

TEST_F(Generates, ReferenceIds) {
  Write("prompt.jsonl", Json({{"text", kPrompt}}).dump() + "\n");
  const Outcome prompt =
      Run({"tokenize", "--model", kStoryModel.string(), (*this / "prompt.jsonl").string()});
  ExpectDone(prompt);
  Json ids = ParseJson(prompt.out, "ids").at("ids");
  EXPECT_EQ(ids, Ids(Quoted("  ids ", ";")));

  const Json greedy = Ids(Quoted("- greedy from there: ", "\n"));
  ASSERT_EQ(greedy.size(), 24U);
  ids.insert(ids.end(), greedy.begin(), greedy.end());
  Write("ids.jsonl", Json({{"ids", ids}}).dump() + "\n");
  const Outcome text = Run({"tokenize", "--model", kStoryModel.string(), "--decode", "ids.jsonl"});
  ExpectDone(text);
  const Outcome generated = Generate(kPrompt, {"--max-new-tokens", "24"});
  ExpectDone(generated);
  EXPECT_EQ(generated.out, ParseJson(text.out, "text").at("text").get<std::string>() + "\n");
}

TEST_F(Generates, StreamsThroughLittleMemory) {
  const Words few = {"--max-new-tokens", "24"};
  const Outcome whole = Generate(kPrompt, few);
  ExpectDone(whole);
  const double smallest = SmallestCap(kPrompt, few);
  const auto with_cap = [&](double gb) {
    return Generate(kPrompt,
                    {"--max-new-tokens", "24", "--device-memory-gb", fmt::format("{:.6f}", gb)});
  };
  const Outcome streamed = with_cap(smallest);
  ExpectDone(streamed);
  EXPECT_EQ(streamed.out, whole.out);
  ExpectError(with_cap(smallest - 1e-6), 2, {"--device-memory-gb"});
}

TEST_F(Generates, StartTokenExactlyOnce) {
  for (const char* prompt :
       {"Once", "<|start_story|>Once", "<|start_story|> <|start_story|>Once"}) {
    SCOPED_TRACE(prompt);
    const Outcome outcome = Generate(prompt, {"--max-new-tokens", "3"});
    ExpectDone(outcome);
    EXPECT_TRUE(outcome.out.starts_with("<|start_story|>")) << outcome.out;
    EXPECT_EQ(outcome.out.find("<|start_story|>", 1), std::string::npos) << outcome.out;
  }
}

TEST_F(Generates, EdgesOfPrompts) {
  const Outcome empty = Generate("", {"--max-new-tokens", "10"});
  ExpectDone(empty);
  EXPECT_TRUE(empty.out.starts_with("<|start_story|>"));
  const Outcome dashes = Generate("--help", {"--max-new-tokens", "1"});
  ExpectDone(dashes);
  EXPECT_THAT(dashes.out, testing::HasSubstr("--help"));
  // Room for as many tokens as can be counted: the story or the context ends it.
  ExpectDone(Generate(kPrompt, {"--max-new-tokens", "9223372036854775807"}));
}

}  // namespace
}  // namespace lazytrain
