// Estimates: what they say fits does, what they say does not does not, and the change they name
// helps.
#include "train/estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "profile/machine_profile.h"
#include "tests/temp_folder.h"
#include "train/config/config.h"
#include "train/plan_inputs.h"
#include "train/trained_graph.h"

namespace lazytrain {
namespace {

using testing::HasSubstr;

class Estimates : public testing::Test {
 protected:
  void SetUp() override {
    const Json config = {{"model_type", "llama"},       {"vocab_size", 512},
                         {"hidden_size", 64},           {"intermediate_size", 128},
                         {"num_hidden_layers", 6},      {"num_attention_heads", 2},
                         {"num_key_value_heads", 2},    {"max_position_embeddings", 4096},
                         {"tie_word_embeddings", false}};
    WriteFile(folder_ / "config.json", config.dump());
  }

  // Plenty of everything.
  EstimateOptions Options() const {
    EstimateOptions options;
    options.model = folder_.string();
    options.gpu_memory_gb = 1;
    options.cpu_memory_gb = 10;
    options.h2d_gbps = 0.1;
    options.d2h_gbps = 0.1;
    options.host_gbps = 1;
    options.gemm_tflops = 0.01;
    options.sequence = 64;
    options.batch = 16;
    options.seconds = 1;
    return options;
  }

  int64_t Store() const {
    const ModelGraph model = BuildTrainedGraph(HubConfig::FromFolder(folder_), DType::kBF16);
    Capacity capacity;
    capacity.micro_batch_tokens = capacity.longest_document = 64;
    capacity.documents = 1;
    return StoreBytes(model, {true, DType::kBF16}, capacity);
  }

  std::string ErrorOf(const EstimateOptions& options) const {
    try {
      MakeEstimate(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
      return error.what();
    }
    return "nothing was thrown";
  }

  TempFolder temp_;
  const Path folder_ = temp_.path();
};

TEST_F(Estimates, SayWhatAStepTakes) {
  const Estimate estimate = MakeEstimate(Options());
  ASSERT_TRUE(estimate.step);
  const EstimatedStep& step = *estimate.step;
  EXPECT_EQ(step.batch, 16);
  EXPECT_NEAR(step.tokens_per_second * step.seconds, 16 * 64, 1e-6);
  EXPECT_GE(step.seconds, 0.999 * step.bound_seconds);
  EXPECT_GT(step.device_bytes, 0);
  EXPECT_LE(step.device_bytes, 1'000'000'000);
  EXPECT_EQ(estimate.store_bytes, Store());
  // A slower machine takes longer.
  EstimateOptions slow = Options();
  slow.gemm_tflops = 0.001;
  EXPECT_GT(MakeEstimate(slow).step->seconds, 3 * step.seconds);
}

TEST_F(Estimates, NameTheHostMemoryThatStatesNeed) {
  EstimateOptions options = Options();
  options.cpu_memory_gb = 0.9 * static_cast<double>(Store()) / 1e9;
  const Estimate estimate = MakeEstimate(options);
  EXPECT_FALSE(estimate.step);
  EXPECT_THAT(estimate.shortage, HasSubstr("host memory"));
  ASSERT_FALSE(estimate.changes.empty());
  EXPECT_THAT(estimate.changes[0], HasSubstr("--cpu-memory-budget-gb"));
}

TEST_F(Estimates, NameAChangeThatWorks) {
  EstimateOptions options = Options();
  options.gpu_memory_gb = 0.001;
  const Estimate estimate = MakeEstimate(options);
  EXPECT_FALSE(estimate.step);
  EXPECT_THAT(estimate.shortage, HasSubstr("device memory is "));
  const std::string flag = "--gpu-memory-gb ";
  bool tried = false;
  for (const std::string& change : estimate.changes) {
    if (!change.starts_with(flag)) continue;
    options.gpu_memory_gb = std::stod(change.substr(flag.size()));
    EXPECT_GT(options.gpu_memory_gb, 0.001);
    EXPECT_TRUE(MakeEstimate(options).step) << change;
    tried = true;
  }
  EXPECT_TRUE(tried);
}

TEST_F(Estimates, FindTheLargestBatch) {
  EstimateOptions options = Options();
  options.batch = 0;
  options.sequence = 1024;
  options.gpu_memory_gb = 0.05;
  options.cpu_memory_gb = 0.02;
  const Estimate estimate = MakeEstimate(options);
  ASSERT_TRUE(estimate.step);
  EXPECT_FALSE(estimate.batches.empty());
  ASSERT_TRUE(estimate.one_pass);
  ASSERT_TRUE(estimate.one_pass->bounded);
  EXPECT_FALSE(estimate.one_pass->blocked_by.empty());
  EXPECT_GE(estimate.one_pass->at_most, estimate.one_pass->batch);
  EXPECT_GT(estimate.one_pass->batch, 0);
  // More passes never allow less.
  EXPECT_GE(estimate.more_passes->at_most, estimate.one_pass->at_most);
  EXPECT_GE(estimate.more_passes->at_most, estimate.step->batch);
  // More memory allows more.
  options.gpu_memory_gb = 0.1;
  options.cpu_memory_gb = 0.1;
  EXPECT_GT(MakeEstimate(options).one_pass->at_most, estimate.one_pass->at_most);
  const Json json = EstimateToJson(estimate);
  EXPECT_EQ(json.at("largest_batch_in_one_pass").at("batch"), estimate.one_pass->batch);
  EXPECT_EQ(json.at("fits"), true);
  EXPECT_THAT(EstimateText(estimate), HasSubstr("in one pass: "));
}

TEST_F(Estimates, BelieveAProfileButForWhatIsGiven) {
  MachineProfile profile;
  profile.machine.device = "a machine";
  profile.rates.h2d = profile.rates.h2d_both = 1e8;
  profile.rates.d2h = profile.rates.d2h_both = 1e8;
  profile.rates.host_shared = 1e9;
  profile.rates.gemm_flops = 1e10;
  profile.rates.host_update = 1e8;
  profile.rates.device_update = 1e8;
  profile.rates.device_copy = 1e9;
  WriteFile(folder_ / "p.json", profile.ToJson().dump());
  EstimateOptions options = Options();
  options.profile = (folder_ / "p.json").string();
  options.h2d_gbps = options.d2h_gbps = options.host_gbps = options.gemm_tflops = 0;
  const Estimate believed = MakeEstimate(options);
  EXPECT_THAT(believed.assumptions, testing::Contains(HasSubstr("a machine")));
  options.gemm_tflops = 0.001;
  EXPECT_GT(MakeEstimate(options).step->seconds, 3 * believed.step->seconds);
  options.profile = (folder_ / "nothere.json").string();
  EXPECT_THROW(MakeEstimate(options), Error);
}

TEST_F(Estimates, RefuseWhatCannotBe) {
  const auto with = [&](auto change) {
    EstimateOptions options = Options();
    change(options);
    return ErrorOf(options);
  };
  EXPECT_THAT(with([](EstimateOptions& o) { o.gpu_memory_gb = 0; }), HasSubstr("--gpu-memory-gb"));
  EXPECT_THAT(with([](EstimateOptions& o) { o.cpu_memory_gb = -1; }),
              HasSubstr("--cpu-memory-budget-gb"));
  EXPECT_THAT(with([](EstimateOptions& o) { o.h2d_gbps = 0; }), HasSubstr("--h2d-bandwidth-gbps"));
  EXPECT_THAT(with([](EstimateOptions& o) { o.batch = -1; }), HasSubstr("--batch"));
  EXPECT_THAT(with([](EstimateOptions& o) { o.batch = 1'000'000; }), HasSubstr("at most"));
  EXPECT_THAT(with([](EstimateOptions& o) { o.sequence = 8192; }), HasSubstr("context is 4096"));
  EXPECT_THAT(with([](EstimateOptions& o) { o.gemm_tflops = std::nan(""); }),
              HasSubstr("--gemm-tflops"));
}

TEST_F(Estimates, OnlyNoteNvme) {
  EstimateOptions options = Options();
  options.nvme_gb = 500;
  EXPECT_THAT(MakeEstimate(options).assumptions, testing::Contains(HasSubstr("not executed yet")));
}

}  // namespace
}  // namespace lazytrain
