// What the planner says of machines that differ in one thing.
#include "plan/planner.h"

#include <gtest/gtest.h>

#include "model/model_builder.h"

namespace lazytrain {
namespace {

ModelGraph Model() {
  const Json config = {
      {"model_type", "llama"},           {"vocab_size", 4000},          {"hidden_size", 512},
      {"intermediate_size", 1536},       {"num_hidden_layers", 6},      {"num_attention_heads", 8},
      {"max_position_embeddings", 1024}, {"tie_word_embeddings", false}};
  GraphOptions options;
  options.dtype = DType::kBF16;
  return BuildModelGraph(HubConfig(config, "config.json"), options);
}

HardwareRates Rates() {
  HardwareRates rates;
  rates.h2d_bytes = rates.d2h_bytes = 4e9;
  rates.host_bytes = 1e10;
  rates.nvme_read_bytes = rates.nvme_write_bytes = 4e9;
  rates.gemm_flops = 1e11;
  rates.device_bytes = 1e11;
  rates.host_update = 1e9;
  rates.device_update = 4e9;
  return rates;
}

PlannerOptions Options() {
  PlannerOptions options;
  Capacity capacity;
  capacity.micro_batches = 8;
  capacity.micro_batch_tokens = 1024;
  capacity.longest_document = 512;
  capacity.documents = 2;
  options.capacities = {capacity};
  options.passes = {1};
  options.budget.device_bytes = 160e6;
  options.budget.host_activation_bytes = 10e6;
  options.seconds = 3;
  options.gap = 0.005;
  return options;
}

double NvmeBytes(const PlanResult& plan, const ModelGraph& model) {
  const PlanCosts costs = MakePlanCosts(model, plan.capacity, CostModel(Rates()), StateBytes());
  double bytes = 0;
  for (size_t s = 0; s < plan.schedule.segments.size(); ++s) {
    const SegmentPlan& segment = plan.schedule.segments[s];
    for (size_t g = 0; g < segment.tiers.size(); ++g) {
      if (segment.tiers[g] != Tier::kNvme) continue;
      bytes += 8 * static_cast<double>(costs.segments[s].groups[g].bytes);
    }
  }
  return bytes;
}

TEST(Planner, NvmeIsUsedAsFarAsItsOwnBandwidthGoes) {
  const ModelGraph model = Model();
  PlannerOptions options = Options();
  const PlanResult without = PlanSchedule(model, CostModel(Rates()), options);
  ASSERT_TRUE(without.feasible);
  options.space.nvme = true;
  options.budget.nvme_bytes = 1e9;
  const PlanResult fast = PlanSchedule(model, CostModel(Rates()), options);
  EXPECT_LT(fast.estimate.seconds, 0.99 * without.estimate.seconds);
  EXPECT_GT(NvmeBytes(fast, model), 0);

  HardwareRates slow = Rates();
  slow.nvme_read_bytes = slow.nvme_write_bytes = 1e8;
  const PlanResult crawling = PlanSchedule(model, CostModel(slow), options);
  EXPECT_GT(crawling.estimate.seconds, fast.estimate.seconds);
  EXPECT_LE(crawling.estimate.seconds, 1.006 * without.estimate.seconds);
  // What is written and read again takes its time.
  EXPECT_LE(2 * NvmeBytes(crawling, model) / 1e8, 1.001 * crawling.estimate.seconds);
}

TEST(Planner, FewerBytesOfMomentsNeverCostTime) {
  const ModelGraph model = Model();
  PlannerOptions options = Options();
  HardwareRates rates = Rates();
  rates.host_bytes = 1e9;
  const PlanResult whole = PlanSchedule(model, CostModel(rates), options);
  options.states.moments = 2.03;
  const PlanResult eighth = PlanSchedule(model, CostModel(rates), options);
  EXPECT_LT(eighth.estimate.seconds, whole.estimate.seconds);
}

TEST(Planner, ThePapersSpaceIsPartOfItsOwn) {
  const ModelGraph model = Model();
  PlannerOptions options = Options();
  const PlanResult ours = PlanSchedule(model, CostModel(Rates()), options);
  options.space.boundaries_only = true;
  options.space.residency = false;
  options.space.device_updates = false;
  const PlanResult paper = PlanSchedule(model, CostModel(Rates()), options);
  ASSERT_TRUE(paper.feasible);
  EXPECT_LE(ours.estimate.seconds, 1.006 * paper.estimate.seconds);
  const std::optional<StepEstimate> same =
      EstimateSchedule(model, CostModel(Rates()), Options(), paper.capacity, paper.schedule);
  ASSERT_TRUE(same.has_value());
  EXPECT_NEAR(same->seconds, paper.estimate.seconds, 1e-6 * paper.estimate.seconds);
}

}  // namespace
}  // namespace lazytrain
