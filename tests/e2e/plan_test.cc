// Plans: made without weights, explained, and run with the bits of every other schedule.
#include "tests/e2e/program.h"

namespace lazytrain {
namespace {

class Plans : public ProgramTest {
 protected:
  static Words GivenHardware() {
    return {"hardware.h2d_gbps=0.05", "hardware.d2h_gbps=0.05", "hardware.host_gbps=1",
            "hardware.gemm_tflops=0.01", "memory.solve_seconds=2"};
  }
  Outcome Plan(Words words) const {
    Words all = {"plan", "config.yaml"};
    const Words given = GivenHardware();
    all.insert(all.end(), given.begin(), given.end());
    all.insert(all.end(), words.begin(), words.end());
    return Run(all);
  }
};

TEST_F(Plans, ExplainWhatTheyChose) {
  const Outcome outcome = Plan({"memory.schedule=solve", "memory.device_memory_gb=0.008", "--out",
                                "plan.json", "--report", "plan.html"});
  ExpectDone(outcome);
  for (const char* part :
       {"predicted step", "gap", "layers.* out", "Compute is busy", "would save"}) {
    EXPECT_THAT(outcome.out, testing::HasSubstr(part));
  }
  const std::string page = ReadFile(*this / "plan.html");
  for (const char* part : {"<svg", "Device memory over one step", "layers.0"}) {
    EXPECT_THAT(page, testing::HasSubstr(part));
  }
  EXPECT_THAT(page, testing::Not(testing::HasSubstr("http")));  // self-contained
  const Json json = ReadJsonFile(*this / "plan.json");
  EXPECT_LE(json.at("predicted").at("device_bytes").get<int64_t>(), 8'000'000);
  EXPECT_TRUE(json.contains("numerics_key"));
}

TEST_F(Plans, RunWithTheBitsOfEveryOtherSchedule) {
  ExpectDone(
      Plan({"memory.schedule=solve", "memory.device_memory_gb=0.008", "--out", "plan.json"}));
  ExpectDone(Sft({"training.output_dir=interval"}));
  ExpectDone(Sft(
      {"training.output_dir=file", "memory.schedule=plan.json", "memory.device_memory_gb=0.008"}));
  ExpectDone(Sft({"training.output_dir=solved", "memory.schedule=solve", "memory.solve_seconds=2",
                  "memory.device_memory_gb=0.008"}));
  ExpectDone(Sft({"training.output_dir=paper", "memory.schedule=paper", "memory.solve_seconds=2"}));
  const Words expected = Losses(*this / "interval");
  ASSERT_EQ(expected.size(), 3u);
  // Passes are part of the numerics key with bfloat16 gradients; one pass each here or the losses
  // of the first step alone are comparable.
  for (const char* run : {"file", "solved", "paper"}) {
    const Json schedule = ReadJsonFile(*this / run / "schedule.json");
    const bool one_pass = schedule.at("passes").size() == 1;
    const Words losses = Losses(*this / run);
    EXPECT_EQ(losses.front(), expected.front()) << run;
    if (one_pass) {
      EXPECT_EQ(losses, expected) << run;
    }
  }
}

TEST_F(Plans, SayWhatWouldFit) {
  const Words small = {"memory.schedule=solve", "memory.device_memory_gb=0.001"};
  const Outcome refused = Plan(small);
  ExpectError(refused, 2, {"memory.device_memory_gb", "too few", "dataset.max_seq_len"});
  const std::string sentence = "too few: with ";
  const size_t at = refused.err.find(sentence);
  ASSERT_NE(at, std::string::npos) << refused.err;
  const std::string enough = refused.err.substr(
      at + sentence.size(), refused.err.find(" GB one", at) - at - sentence.size());
  ExpectDone(Plan({"memory.schedule=solve", "memory.device_memory_gb=" + enough}));
}

}  // namespace
}  // namespace lazytrain
