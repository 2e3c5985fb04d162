// Reference models from transformers under every schedule: inside tolerance, and the same bits.
#include "train/verify.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lazytrain {
namespace {

// A case beside this file, or one of the reference folder.
Path CaseFolder(const std::string& name) {
  const Path here = Path(LAZYTRAIN_SOURCE_DIR) / "tests/golden/cases" / name;
  return std::filesystem::exists(here) ? here : Path(LAZYTRAIN_SHARED_DIR) / "golden" / name;
}

class VerifyTest : public ::testing::TestWithParam<std::string> {};

TEST_P(VerifyTest, FloatIsInsideToleranceAndSchedulesAgree) {
  std::string bits;
  for (const char* schedule :
       {"resident", "interval:1", "interval:2", "interval:3", "interval:4"}) {
    VerifyOptions options;
    options.case_folder = CaseFolder(GetParam());
    options.schedule = schedule;
    const VerifyReport report = Verify(options);
    for (const VerifyMeasure& m : report.measures) {
      EXPECT_TRUE(m.ok()) << schedule << ": " << m.name << " " << m.error << " at " << m.where;
    }
    if (bits.empty()) bits = report.bits;
    EXPECT_EQ(report.bits, bits) << schedule;
  }
}

TEST_P(VerifyTest, BFloat16IsCloseAndSchedulesAgree) {
  std::string bits;
  for (const char* schedule : {"resident", "interval:2"}) {
    VerifyOptions options;
    options.case_folder = CaseFolder(GetParam());
    options.schedule = schedule;
    options.dtype = DType::kBF16;
    const VerifyReport report = Verify(options);
    for (const VerifyMeasure& m : report.measures) {
      // Gradients of tiny random models lose a lot in bfloat16; the losses must not.
      if (m.name == "gradients") continue;
      EXPECT_TRUE(m.ok()) << schedule << ": " << m.name << " " << m.error << " at " << m.where;
    }
    if (bits.empty()) bits = report.bits;
    EXPECT_EQ(report.bits, bits) << schedule;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, VerifyTest,
                         ::testing::Values("llama2", "llama3", "qwen2", "qwen3", "mistral", "phi3",
                                           "glm", "glm4", "olmo2", "olmo3", "smollm3",
                                           "llama_tied_linear_rope", "llama_biases",
                                           "qwen2_tied_window"),
                         [](const auto& tested) { return tested.param; });

// The comparison itself can fail: a case whose stored loss is wrong.
TEST(Verify, NoticesWrongReferences) {
  const Path folder = Path(::testing::TempDir()) / "wrong_reference";
  std::filesystem::remove_all(folder);
  std::filesystem::copy(CaseFolder("llama_biases"), folder,
                        std::filesystem::copy_options::recursive);
  std::filesystem::permissions(folder / "expected.json", std::filesystem::perms::owner_all);
  Json expected = ReadJsonFile(folder / "expected.json");
  expected["loss"] = expected["loss"].get<double>() * 1.001;
  WriteFile(folder / "expected.json", expected.dump());
  VerifyOptions options;
  options.case_folder = folder;
  EXPECT_FALSE(Verify(options).ok());
}

}  // namespace
}  // namespace lazytrain
