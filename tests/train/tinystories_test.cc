// A real model against an independent implementation: token ids, logits and losses of
// TinyStories-656K as the reference folder's SOURCES.md lists them (double precision, weights
// widened).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "engine/training_engine.h"
#include "model/family.h"
#include "train/device_choice.h"
#include "train/model_folder.h"

namespace lazytrain {
namespace {

Path ModelFolder() { return Path(LAZYTRAIN_SHARED_DIR) / "data/models/TinyStories-656K"; }

TEST(TinyStories, IdsLogitsAndLossesOfTheReference) {
  const TokenizerFolder tokenizer = LoadTokenizer(ModelFolder());
  const std::vector<int32_t> ids = tokenizer.tokenizer.Encode(
      "<|start_story|>Once upon a time, there was a little girl named Lily. ", false);
  ASSERT_THAT(ids, ::testing::ElementsAre(1, 147, 201, 282, 215, 286, 598, 1475));

  GraphOptions options;
  options.dtype = DType::kF32;
  options.head_chunk_rows = 3;
  ModelGraph model = BuildModelGraph(HubConfig::FromFolder(ModelFolder()), options);
  Capacity capacity;
  capacity.micro_batch_tokens = capacity.longest_document = 8;
  capacity.documents = capacity.selected = 1;
  ProgramSetOptions programs;
  programs.evaluation = programs.logits = capacity;
  Schedule schedule = IntervalSchedule(model, capacity, 1);
  const ProgramSet set(std::move(model), std::move(schedule), programs);
  const std::unique_ptr<Device> device = OpenDevice("cpu", true);
  TrainingEngine engine(*device, set, CostModel(), {});
  const Checkpoint checkpoint(ModelFolder());
  engine.LoadWeights(
      [&](const UnitSpec& unit, const UnitMemory& memory) { ReadUnit(checkpoint, unit, memory); });

  const DocumentView document{ids, ids};
  std::vector<MicroBatch> step = {MakeMicroBatch({&document, 1})};
  step[0].selected_rows = {7};
  FinishStep(step);
  const std::vector<float> logits = engine.Logits(step).front();
  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + 5, order.end(),
                    [&](int a, int b) { return logits[a] > logits[b]; });
  order.resize(5);
  EXPECT_THAT(order, ::testing::ElementsAre(303, 1192, 26, 299, 30));
  const std::vector<double> best = {18.6570, 13.5982, 12.9094, 12.5463, 12.4054};
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(logits[order[i]], best[i], 2e-4);
  EXPECT_NEAR(engine.Evaluate(step), 0.681984, 2e-6);  // the mean over the seven predictions
}

}  // namespace
}  // namespace lazytrain
