// Token by token from states gives the bits of computing the whole text anew.
#include <gtest/gtest.h>

#include "model/continuation.h"
#include "program/waits.h"
#include "tests/engine/random_run.h"

namespace lazytrain {
namespace {

constexpr int64_t kContext = 300;

std::vector<int32_t> RandomIds(Random& random, int64_t vocab) {
  std::vector<int32_t> ids;
  for (int64_t t = 0; t < kContext; ++t) {
    ids.push_back(static_cast<int32_t>(random.Below(static_cast<uint64_t>(vocab))));
  }
  return ids;
}

std::unique_ptr<ProgramSet> Programs(const testing::RandomSetup& setup, Random& random) {
  ProgramSetOptions options;
  Capacity capacity;
  capacity.micro_batch_tokens = capacity.longest_document = kContext;
  capacity.documents = capacity.selected = 1;
  options.logits = capacity;
  options.prefill = capacity;
  options.prefill->context = kContext;
  if (random.Below(2) == 0) options.prefill->chunk_tokens = random.Between(20, 200);
  ModelGraph model = setup.Graph();
  Schedule schedule = testing::RandomSchedule(random, model, capacity, nullptr);
  for (UnitPlan& unit : schedule.units) unit.update = UpdatePlace::kHost;
  for (UnitPlan& unit : schedule.units) unit.states = Tier::kHost;
  return std::make_unique<ProgramSet>(std::move(model), std::move(schedule), options);
}

TEST(Generation, StatesGiveTheBitsOfTheWholeText) {
  for (uint64_t round = 0; round < 30; ++round) {
    Random random(StreamSeed(31, round));
    testing::RandomSetup setup = testing::MakeRandomSetup(random);
    const bool biased = setup.config.contains("model_max_length");
    setup.config[biased ? "model_max_length" : "max_position_embeddings"] = 512;
    const std::unique_ptr<ProgramSet> programs = Programs(setup, random);
    for (const Program* program : programs->all()) CheckOrder(*program);
    VirtualAcceleratorOptions accelerator;
    accelerator.threads = 2;
    accelerator.poison = true;
    const std::unique_ptr<Device> device = MakeVirtualAccelerator(accelerator);
    EngineOptions options;
    options.check_memory = true;
    TrainingEngine engine(*device, *programs, CostModel(), options);
    engine.LoadWeights([&](const UnitSpec& unit, const UnitMemory& memory) {
      InitializeUnit(unit, setup.seed, 0.3, memory);
    });
    const std::vector<int32_t> ids =
        RandomIds(random, setup.config.at("vocab_size").get<int64_t>());
    // Cuts of any size; one token at a time goes through the other program.
    for (size_t cached = 0; cached < ids.size();) {
      const int64_t most = random.Below(2) == 0 ? 1 : kContext;
      const auto left = static_cast<int64_t>(ids.size() - cached);
      const auto size = static_cast<size_t>(random.Between(1, std::min(left, most)));
      const std::vector<float> continued =
          engine.Continue(std::span(ids).subspan(cached, size), static_cast<int64_t>(cached));
      cached += size;
      const MicroBatch prefix = MakeContinuation(std::span(ids).first(cached), 0);
      ASSERT_EQ(continued, engine.Logits({&prefix, 1}).front())
          << "round " << round << ", " << cached << " tokens\n"
          << setup.config.dump();
    }
  }
}

}  // namespace
}  // namespace lazytrain
