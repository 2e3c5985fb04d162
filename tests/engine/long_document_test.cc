// Documents longer than what kernels take at once.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "program/waits.h"
#include "tests/engine/random_run.h"

namespace lazytrain {
namespace {

struct LongRun {
  std::vector<double> losses;
  std::vector<float> gradient;  // of the first step, all units
  int64_t planned = 0;
  int64_t touched = 0;
};

Json SmallModel(int64_t context) {
  return {{"model_type", "qwen2"},    {"vocab_size", 40},
          {"hidden_size", 16},        {"intermediate_size", 96},
          {"num_hidden_layers", 2},   {"num_attention_heads", 2},
          {"num_key_value_heads", 1}, {"max_position_embeddings", context},
          {"rms_norm_eps", 1e-6},     {"tie_word_embeddings", true}};
}

// Steps on one document of so many tokens, with everything but the boundaries recomputed.
LongRun Train(const Json& config, int64_t tokens, int64_t chunk, int steps) {
  testing::RandomSetup setup;
  setup.config = config;
  setup.head_chunk_rows = 256;
  setup.capacity.micro_batch_tokens = setup.capacity.longest_document = tokens + tokens / 50;
  setup.capacity.documents = 3;
  setup.capacity.chunk_tokens = chunk;
  ProgramSetOptions options;
  options.training = setup.capacity;
  const ModelGraph model = setup.Graph();
  const ProgramSet programs(setup.Graph(), IntervalSchedule(model, setup.capacity, 1), options);
  CheckOrder(programs.training());
  VirtualAcceleratorOptions accelerator;
  const std::unique_ptr<Device> device = MakeVirtualAccelerator(accelerator);
  TrainingEngine engine(*device, programs, CostModel(), {});
  engine.LoadWeights(
      [](const UnitSpec& unit, const UnitMemory& memory) { InitializeUnit(unit, 5, 0.1, memory); });
  Random random(3);
  std::vector<int32_t> ids;
  for (int64_t t = 0; t < tokens; ++t) ids.push_back(static_cast<int32_t>(random.Below(7)));
  const std::vector<DocumentView> document = {{ids, ids}};
  LongRun run;
  for (int s = 0; s < steps; ++s) {
    run.losses.push_back(engine.Step(MakeStep(document, setup.capacity), 1e-2).loss);
    if (s > 0) continue;
    for (size_t u = 0; u < programs.model().units.size(); ++u) {
      const std::vector<float> gradient = engine.Gradient(u);
      run.gradient.insert(run.gradient.end(), gradient.begin(), gradient.end());
    }
  }
  run.planned = programs.PeakBytes(kDeviceSpace);
  run.touched = engine.device_bytes_used();
  return run;
}

double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    size += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / size);
}

// Chunks change the order of sums, and nothing else.
TEST(LongDocument, ChunksGiveTheSameResultInLessMemory) {
  const Json config = SmallModel(4096);
  const LongRun whole = Train(config, 2900, 0, 3);
  for (const int64_t chunk : {2000, 512, 100}) {
    const LongRun chunked = Train(config, 2900, chunk, 3);
    ASSERT_EQ(chunked.losses.size(), whole.losses.size());
    for (size_t s = 0; s < whole.losses.size(); ++s) {
      EXPECT_NEAR(chunked.losses[s], whole.losses[s], 1e-5 * whole.losses[s]) << chunk;
    }
    EXPECT_LT(Distance(chunked.gradient, whole.gradient), 1e-5) << chunk;
    EXPECT_GT(Distance(chunked.gradient, whole.gradient), 0) << chunk;
    EXPECT_LT(chunked.planned, whole.planned) << chunk;
  }
}

void CheckLearns(int64_t tokens, int64_t chunk, int steps) {
  const LongRun run = Train(SmallModel(2 * tokens), tokens, chunk, steps);
  EXPECT_NEAR(run.losses.front(), std::log(40.0), 0.2);
  EXPECT_LT(run.losses.back(), run.losses.front() - 0.05);
  EXPECT_LE(run.touched, run.planned);
  EXPECT_GE(run.touched, run.planned * 9 / 10);
}

TEST(LongDocument, SixteenThousandTokens) { CheckLearns(16384, 2048, 2); }

// About five minutes on two cores; labelled slow.
TEST(LongDocumentSlow, AHundredAndThirtyThousandTokens) { CheckLearns(131072, 8192, 2); }

}  // namespace
}  // namespace lazytrain
