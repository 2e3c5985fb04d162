// Reference models from transformers under every schedule: inside tolerance, and the same bits.
#include "train/verify.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/temp_folder.h"

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
                                           "qwen2_tied_window", "llama_yarn", "llama_yarn_tuned",
                                           "llama_dynamic", "phi3_longrope", "olmo3_yarn",
                                           "qwen3_windows", "smollm3_windows", "glm_quarter_rope",
                                           "glm4_biases", "mistral_bfloat16", "olmo2_one_key_head",
                                           "baichuan_linear_bias"),
                         [](const auto& tested) { return tested.param; });

// Of a case with one of its JSON files changed.
VerifyReport VerifyChanged(const std::string& name, const std::string& file,
                           const std::function<void(Json&)>& change) {
  const TempFolder temp;
  VerifyOptions options;
  options.case_folder = temp.path() / name;
  std::filesystem::copy(CaseFolder(name), options.case_folder,
                        std::filesystem::copy_options::recursive);
  const Path path = options.case_folder / file;
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  Json json = ReadJsonFile(path);
  change(json);
  WriteFile(path, json.dump());
  return Verify(options);
}

// The comparison itself can fail: a case whose stored loss is wrong.
TEST(Verify, NoticesWrongReferences) {
  EXPECT_FALSE(VerifyChanged("llama_biases", "expected.json", [](Json& expected) {
                 expected["loss"] = expected["loss"].get<double>() * 1.001;
               }).ok());
}

// What the cases are there for: each is far off when its setting is another.
TEST(Verify, NoticesWrongSettings) {
  const auto is_off = [](const std::string& name, const std::function<void(Json&)>& change) {
    const VerifyReport report = VerifyChanged(name, "config.json", change);
    return report.measures[0].error > 100 * report.measures[0].tolerance;
  };
  EXPECT_TRUE(is_off("llama_yarn", [](Json& c) { c["rope_scaling"]["attention_factor"] = 1.0; }));
  EXPECT_TRUE(is_off("llama_yarn_tuned", [](Json& c) { c["rope_parameters"]["truncate"] = true; }));
  EXPECT_TRUE(is_off("llama_yarn_tuned", [](Json& c) { c["rope_parameters"]["beta_slow"] = 1; }));
  EXPECT_TRUE(is_off("llama_dynamic", [](Json& c) {
    c.erase("rope_scaling");
    c["max_position_embeddings"] = 128;
  }));
  EXPECT_TRUE(is_off("phi3_longrope", [](Json& c) {
    c["rope_scaling"]["long_factor"] = c["rope_scaling"]["short_factor"];
  }));
  EXPECT_TRUE(is_off("phi3_longrope", [](Json& c) { c["original_max_position_embeddings"] = 25; }));
  EXPECT_TRUE(is_off("baichuan_linear_bias", [](Json& c) { c["max_position_embeddings"] = 128; }));
}

// The reference took such documents, too: positions beyond the context are embedded like others.
TEST(Verify, DocumentsBeyondTheContextRun) {
  EXPECT_TRUE(VerifyChanged("llama_biases", "config.json", [](Json& config) {
                config["max_position_embeddings"] = 36;  // the longest has 37 tokens
              }).ok());
}

}  // namespace
}  // namespace lazytrain
