// lazytrain estimate, as a user before buying a machine runs it.
#include "tests/e2e/program.h"

namespace lazytrain {
namespace {

using testing::HasSubstr;

class EstimateProgram : public ProgramTest {
 protected:
  Outcome Estimate(Words words) const {
    Words all = {"estimate",
                 "--model",
                 kStoryModel.string(),
                 "--h2d-bandwidth-gbps",
                 "0.1",
                 "--d2h-bandwidth-gbps",
                 "0.1",
                 "--host-bandwidth-gbps",
                 "1",
                 "--gemm-tflops",
                 "0.01",
                 "--seq",
                 "64"};
    all.insert(all.end(), words.begin(), words.end());
    return Run(all);
  }
};

TEST_F(EstimateProgram, SaysWhetherItFits) {
  const Outcome fits = Estimate({"--gpu-memory-gb", "0.1", "--cpu-memory-budget-gb", "1", "--batch",
                                 "8", "--json", "e.json"});
  ExpectDone(fits);
  for (const char* part :
       {"fits: yes", "batch 8 of 64 tokens", "tokens/s", "device memory", "host memory"}) {
    EXPECT_THAT(fits.out, HasSubstr(part));
  }
  const Json json = ReadJsonFile(*this / "e.json");
  EXPECT_EQ(json.at("fits"), true);
  EXPECT_LE(json.at("step").at("device_bytes").get<int64_t>(), 100'000'000);
  const Outcome not_fit =
      Estimate({"--gpu-memory-gb", "0.001", "--cpu-memory-budget-gb", "1", "--batch", "8"});
  ExpectDone(not_fit);
  EXPECT_THAT(not_fit.out, HasSubstr("fits: no; device memory is "));
  EXPECT_THAT(not_fit.out, HasSubstr("would do: --gpu-memory-gb "));
}

TEST_F(EstimateProgram, NeedsNoWeights) {
  std::filesystem::create_directory(*this / "bare");
  WriteFile(*this / "bare/config.json", ReadFile(kStoryModel / "config.json"));
  ExpectDone(Run({"estimate", "--model", "bare", "--gpu-memory-gb", "0.1", "--cpu-memory-budget-gb",
                  "1", "--h2d-bandwidth-gbps", "1", "--d2h-bandwidth-gbps", "1", "--batch", "2",
                  "--seq", "32"}));
}

TEST_F(EstimateProgram, Errors) {
  ExpectError(Estimate({"--gpu-memory-gb", "1"}), 2, {"--cpu-memory-budget-gb", "required"});
  ExpectError(Estimate({"--gpu-memory-gb", "1", "--cpu-memory-budget-gb", "nan"}), 2,
              {"--cpu-memory-budget-gb"});
  ExpectError(Run({"estimate", "--model", kStoryModel.string(), "--gpu-memory-gb", "1",
                   "--cpu-memory-budget-gb", "1"}),
              2, {"--h2d-bandwidth-gbps", "--profile"});
  ExpectError(Estimate({"--gpu-memory-gb", "1", "--cpu-memory-budget-gb", "1", "--profile",
                        "nothere.json"}),
              1, {"nothere.json"});
}

}  // namespace
}  // namespace lazytrain
