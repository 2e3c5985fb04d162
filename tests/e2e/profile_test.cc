// Profiles of this machine: measured once, kept, believed from a file.
#include "tests/e2e/program.h"

namespace lazytrain {
namespace {

using testing::HasSubstr;

class Profiles : public ProgramTest {
 protected:
  Outcome Bench(Words words) const {
    Words all = {"bench",   "--model", kStoryModel.string(),      "--batch", "4", "--seq", "64",
                 "--steps", "1",       "memory.schedule=interval"};
    all.insert(all.end(), words.begin(), words.end());
    return Run(all);
  }
  std::vector<Path> Cached() const {
    std::vector<Path> files;
    const Path folder = *this / ".cache/lazytrain";
    if (!std::filesystem::exists(folder)) return files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      files.push_back(entry.path());
    }
    return files;
  }
};

TEST_F(Profiles, AreMeasuredOnce) {
  const Outcome first = Bench({});
  ExpectDone(first);
  EXPECT_THAT(first.out, HasSubstr("hardware measured in"));
  ASSERT_EQ(Cached().size(), 1u);
  const std::string kept = ReadFile(Cached()[0]);
  const Outcome second = Bench({});
  ExpectDone(second);
  EXPECT_THAT(second.out, HasSubstr("measured before"));
  EXPECT_EQ(ReadFile(Cached()[0]), kept);
  // Other sizes are added.
  ExpectDone(Bench({"memory.micro_batch_tokens=128"}));
  EXPECT_GT(ReadFile(Cached()[0]).size(), kept.size());
}

TEST_F(Profiles, AreMeasuredAgainWhereTheCacheIsOfNoUse) {
  ExpectDone(Bench({}));
  ASSERT_EQ(Cached().size(), 1u);
  Json other = ReadJsonFile(Cached()[0]);
  other["machine"]["driver"] = "another";
  WriteFile(Cached()[0], other.dump());
  EXPECT_THAT(Bench({}).out, HasSubstr("hardware measured in"));
  WriteFile(Cached()[0], "{\"version\": 1, ");
  const Outcome broken = Bench({});
  ExpectDone(broken);
  EXPECT_THAT(broken.out, HasSubstr("hardware measured in"));
  EXPECT_THAT(broken.err, HasSubstr("measured again"));
  std::filesystem::remove_all(*this / ".cache");
  Write(".cache", "a file");
  const Outcome unwritable = Bench({});
  ExpectDone(unwritable);
  EXPECT_THAT(unwritable.err, HasSubstr("not kept"));
}

TEST_F(Profiles, GivenNumbersGoBefore) {
  const Outcome all = Bench({"hardware.h2d_gbps=1", "hardware.d2h_gbps=1", "hardware.host_gbps=4",
                             "hardware.gemm_tflops=0.01"});
  ExpectDone(all);
  EXPECT_THAT(all.out, HasSubstr("as given by hardware"));
  EXPECT_TRUE(Cached().empty());
  // A link of 10 kB/s makes the predicted step long, whatever was measured.
  const Outcome one = Bench({"hardware.h2d_gbps=0.00001", "--json", "slow.json"});
  ExpectDone(one);
  EXPECT_THAT(one.out, HasSubstr("1 number as given"));
  EXPECT_GT(ReadJsonFile(*this / "slow.json").at("predicted_step_seconds").get<double>(), 10);
}

TEST_F(Profiles, AreWrittenAndBelieved) {
  const Outcome outcome = Run({"profile", "--device", "cpu", "--model", kStoryModel.string(),
                               "--tokens", "256", "--seq", "64", "--out", "p.json"});
  ExpectDone(outcome);
  for (const char* part : {"host to device", "host memory", "matrix products", "lm_head", "TFLOP/s",
                           "256 tokens in documents of 64"}) {
    EXPECT_THAT(outcome.out, HasSubstr(part));
  }
  Json profile = ReadJsonFile(*this / "p.json");
  EXPECT_EQ(profile.at("version"), 2);
  EXPECT_GE(profile.at("ops").size(), 18u);
  const auto predicted = [&](const std::string& json) {
    const Outcome bench = Bench({"hardware.profile=p.json", "--json", json});
    ExpectDone(bench);
    EXPECT_THAT(bench.out, HasSubstr("hardware p.json"));
    EXPECT_THAT(bench.out, testing::Not(HasSubstr("count by rates")));
    return ReadJsonFile(*this / json).at("predicted_step_seconds").get<double>();
  };
  const double before = predicted("before.json");
  for (Json& op : profile["ops"]) op["seconds"] = 100 * op["seconds"].get<double>();
  WriteFile(*this / "p.json", profile.dump());
  EXPECT_GT(predicted("after.json"), 20 * before);
}

TEST_F(Profiles, SayWhatIsWrong) {
  ExpectError(Bench({"hardware.profile=nothere.json"}), 2,
              {"hardware.profile", "'nothere.json'", "lazytrain profile"});
  Write("p.json", "{\"version\": 7}");
  ExpectError(Bench({"hardware.profile=p.json"}), 2, {"p.json", "version 7"});
  ExpectError(Run({"profile", "--device", "cpu", "--seq", "1"}), 2, {"--seq"});
  ExpectError(Run({"profile", "--device", "cpu", "--nvme-dir", "/nowhere"}), 2, {"/nowhere"});
  ExpectError(Run({"profile", "--device", "cpu", "--nvme-dir", ".", "--nvme-gb", "900000"}), 1,
              {"--nvme-gb", "free"});
}

}  // namespace
}  // namespace lazytrain
