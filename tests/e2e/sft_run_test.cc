// Runs that go well: what they write, and that only what should change results does.
#include <chrono>
#include <cmath>
#include <thread>

#include "tests/e2e/program.h"

namespace lazytrain {
namespace {

class SftRuns : public ProgramTest {
 protected:
  // The names of everything that training of the story model leaves behind.
  static Words ExpectedFiles() {
    return {"config.yaml",
            "export",
            "export/config.json",
            "export/generation_config.json",
            "export/model.safetensors",
            "export/special_tokens_map.json",
            "export/tokenizer.json",
            "export/tokenizer_config.json",
            "metrics.jsonl",
            "plan.html",
            "schedule.json"};
  }
  Words FilesOf(const std::string& run) const {
    Words names;
    for (const auto& [name, text] : Snapshot(*this / run)) names.push_back(name);
    return names;
  }
  void Train(const std::string& run, Words overrides) const {
    overrides.push_back("training.output_dir=" + run);
    SCOPED_TRACE(testing::PrintToString(overrides));
    ExpectDone(Sft(overrides));
  }
  std::string ExportOf(const std::string& run) const {
    return ReadFile(*this / run / "export" / "model.safetensors");
  }
  // Two runs with the same losses to the last digit, and the same bytes of weights.
  void ExpectSameResults(const std::string& a, const std::string& b) const {
    EXPECT_EQ(Losses(*this / a), Losses(*this / b));
    EXPECT_TRUE(ExportOf(a) == ExportOf(b)) << a << " and " << b << " differ in their weights";
  }
};

TEST_F(SftRuns, WritesItsFiles) {
  Train("run", {"training.num_steps=5"});
  EXPECT_EQ(FilesOf("run"), ExpectedFiles());
  const Words lines = Lines(ReadFile(*this / "run" / "metrics.jsonl"));
  ASSERT_EQ(lines.size(), 5U);
  for (size_t i = 0; i < lines.size(); ++i) {
    const Json line = ParseJson(lines[i], "metrics.jsonl");
    EXPECT_EQ(line.at("step"), i + 1);
    for (const char* key : {"loss", "grad_norm", "learning_rate", "tokens", "predicted_tokens",
                            "seconds", "step_seconds", "predicted_step_seconds",
                            "tokens_per_second", "tflops", "device_bytes", "host_bytes"}) {
      ASSERT_TRUE(line.contains(key)) << key;
      EXPECT_TRUE(std::isfinite(line.at(key).get<double>())) << key;
      EXPECT_GT(line.at(key).get<double>(), 0) << key;
    }
    EXPECT_EQ(line.at("skipped"), false);
    EXPECT_LE(line.at("tokens").get<int64_t>(), 192);
    EXPECT_TRUE(line.at("lanes").at("compute").contains("busy"));
  }
  const double first = ParseJson(lines.front(), "metrics.jsonl").at("loss").get<double>();
  const double last = ParseJson(lines.back(), "metrics.jsonl").at("loss").get<double>();
  EXPECT_LT(last, first) << "five steps at a high rate teach something";

  const auto trained = TensorsOf(*this / "run" / "export");
  const auto source = TensorsOf(kStoryModel);
  ASSERT_EQ(trained.size(), source.size());
  for (const auto& [name, tensor] : source) {
    ASSERT_TRUE(trained.contains(name)) << name;
    EXPECT_NE(trained.at(name), tensor) << name << " is not trained";
    // dtype and shape
    EXPECT_EQ(trained.at(name).substr(0, 8), tensor.substr(0, 8)) << name;
    EXPECT_EQ(trained.at(name).size(), tensor.size()) << name;
  }
}

TEST_F(SftRuns, ExportEqualsSourceWithoutLearning) {
  Train("run", {"training.learning_rate=0", "training.weight_decay=0", "training.num_steps=2"});
  EXPECT_EQ(TensorsOf(*this / "run" / "export"), TensorsOf(kStoryModel));
  EXPECT_EQ(ReadJsonFile(*this / "run" / "export" / "config.json"),
            ReadJsonFile(kStoryModel / "config.json"));
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                           "generation_config.json"}) {
    EXPECT_EQ(ReadFile(*this / "run" / "export" / name), ReadFile(kStoryModel / name)) << name;
  }
}

TEST_F(SftRuns, ExportIsAModel) {
  Train("run", {});
  const Outcome exported = Run({"export", "run", "--out", "mine"});
  ExpectDone(exported);
  EXPECT_EQ(exported.out, "mine\n");
  EXPECT_EQ(Snapshot(*this / "mine"), Snapshot(*this / "run" / "export"));
  const Outcome generated =
      Run({"generate", "--model", "mine", "--prompt", "Once", "--max-new-tokens", "5"});
  ExpectDone(generated);
  EXPECT_THAT(generated.out, testing::HasSubstr("Once"));
  ExpectDone(Sft({"model.name=mine", "training.num_steps=1", "training.output_dir=again"}));
}

TEST_F(SftRuns, ResolvedConfigurationRunsAgain) {
  Train("run", {"training.seed=7"});
  const Outcome again = Run({"sft", "run/config.yaml", "training.output_dir=again"});
  ExpectDone(again);
  EXPECT_EQ(again.err, "") << "a resolved configuration leaves nothing to note";
  ExpectSameResults("run", "again");
  Train("other", {"training.seed=8"});
  EXPECT_NE(Losses(*this / "run"), Losses(*this / "other")) << "the seed orders the examples";
}

TEST_F(SftRuns, SchedulesDoNotChangeResults) {
  Train("one", {"memory.checkpoint_interval=1"});
  Train("two", {"memory.checkpoint_interval=2"});
  Train("resident", {"memory.schedule=resident"});
  Train("device", {"optimizer.update=device"});
  Train("file", {"memory.schedule=resident/schedule.json"});
  // By hand: everything that backward needs goes to the host and back.
  Json schedule = ReadJsonFile(*this / "one" / "schedule.json");
  for (auto& [layer, groups] : schedule["layers"].items()) {
    for (auto& [group, tier] : groups.items()) tier = "host";
  }
  Write("host.json", schedule.dump(2));
  Train("host", {"memory.schedule=host.json"});
  ASSERT_EQ(Losses(*this / "one").size(), 3U);
  for (const char* run : {"two", "resident", "device", "file", "host"}) {
    SCOPED_TRACE(run);
    ExpectSameResults("one", run);
  }
  const auto plan = [this](const std::string& run, const char* key) {
    return ReadJsonFile(*this / run / "schedule.json").at(key);
  };
  EXPECT_EQ(plan("file", "units"), plan("resident", "units"));
  EXPECT_EQ(plan("file", "layers"), plan("resident", "layers"));
  EXPECT_NE(plan("file", "units"), plan("one", "units"));
  EXPECT_NE(plan("two", "layers"), plan("one", "layers"));
}

TEST_F(SftRuns, PassesDoNotChangeFloat32Results) {
  Train("one", {"model.dtype=float32"});
  Train("two", {"model.dtype=float32", "memory.passes=2"});
  Train("resident", {"model.dtype=float32", "memory.passes=3", "memory.schedule=resident"});
  EXPECT_EQ(ReadJsonFile(*this / "one" / "schedule.json").at("passes").size(), 1U);
  EXPECT_EQ(ReadJsonFile(*this / "two" / "schedule.json").at("passes").size(), 2U);
  ExpectSameResults("one", "two");
  ExpectSameResults("one", "resident");
  for (const auto& [name, tensor] : TensorsOf(*this / "one" / "export")) {
    EXPECT_TRUE(tensor.starts_with("F32 ")) << name;
  }
  EXPECT_EQ(ReadJsonFile(*this / "one" / "export" / "config.json").at("torch_dtype"), "float32");
}

TEST_F(SftRuns, JsonLinesOfQuestionsAndAnswers) {
  Write(
      "qa.jsonl",
      "{\"q\": \"Who is there?\", \"a\": \"A cat.\"}\n\n{\"q\": \"Why?\", \"a\": \"It rains.\"}\n");
  Train("run", {"dataset.path=qa.jsonl", "dataset.query_field=q", "dataset.response_field=a",
                "training.batch_tokens=0", "training.batch_size=2", "training.num_steps=1"});
  const Json line = ParseJson(ReadFile(*this / "run" / "metrics.jsonl"), "metrics.jsonl");
  // The prompts are not trained.
  EXPECT_GT(line.at("predicted_tokens").get<int64_t>(), 2);
  EXPECT_LT(line.at("predicted_tokens").get<int64_t>(), line.at("tokens").get<int64_t>() - 4);
}

TEST_F(SftRuns, SignalsEndARunWell) {
  for (const int signal : {SIGINT, SIGTERM}) {
    SCOPED_TRACE(signal);
    std::filesystem::remove_all(*this / "run");
    Process process({"sft", "config.yaml", "training.num_steps=1000000"}, folder());
    const Path metrics = *this / "run" / "metrics.jsonl";
    while (!process.Ended() &&
           (!std::filesystem::exists(metrics) || Lines(ReadFile(metrics)).size() < 2)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    process.Signal(signal);
    const Outcome outcome = process.Wait();
    EXPECT_EQ(outcome.status, 130) << outcome.err;
    for (const std::string& line : Lines(outcome.err)) EXPECT_TRUE(line.starts_with("note: "));
    EXPECT_EQ(FilesOf("run"), ExpectedFiles());
    ExpectNothingPartial();

    // The export is what the same number of steps gives.
    const size_t steps = Losses(*this / "run").size();
    ASSERT_GE(steps, 2U);
    std::filesystem::remove_all(*this / "whole");
    Train("whole", {fmt::format("training.num_steps={}", steps)});
    ExpectSameResults("run", "whole");
  }
}

TEST_F(SftRuns, ARunThatDivergesSaysSo) {
  const Outcome outcome = Sft({"training.learning_rate=1e30", "training.num_steps=4"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.err, testing::HasSubstr("warning: step 3: a gradient is not finite"));
  for (const std::string& line : Lines(ReadFile(*this / "run" / "metrics.jsonl"))) {
    EXPECT_TRUE(ParseJson(line, "metrics.jsonl").contains("skipped"));
  }
}

}  // namespace
}  // namespace lazytrain
