// A step as it would be on one machine corrects what was believed of another.
#include "profile/step_costs.h"

#include <gtest/gtest.h>

#include "program/compiler.h"
#include "tests/engine/random_run.h"

namespace lazytrain {
namespace {

HardwareRates Machine(double link, double flops, double update) {
  HardwareRates rates;
  rates.h2d_bytes = link;
  rates.d2h_bytes = 1.3 * link;
  rates.host_bytes = 1e12;
  rates.gemm_flops = flops;
  rates.device_bytes = flops / 4;
  rates.host_update = update;
  rates.device_update = update;
  rates.launch_seconds = 0;
  return rates;
}

TEST(StepCosts, CorrectsWhatWasBelieved) {
  testing::RandomSetup setup;
  setup.config = {{"model_type", "llama"},        {"vocab_size", 600},
                  {"hidden_size", 128},           {"intermediate_size", 256},
                  {"num_hidden_layers", 4},       {"num_attention_heads", 4},
                  {"tie_word_embeddings", false}, {"max_position_embeddings", 512}};
  setup.capacity.micro_batch_tokens = 256;
  setup.capacity.longest_document = 128;
  setup.capacity.documents = 8;
  setup.capacity.micro_batches = 4;
  const ModelGraph model = setup.Graph();
  Schedule schedule = IntervalSchedule(model, setup.capacity, 2);
  schedule.passes = {2, 2};
  schedule.units[1].update = UpdatePlace::kDevice;
  const PersistentLayout layout = MakePersistentLayout(model, schedule, StateSpec(), 0);
  const Program program =
      CompileTraining({&model, &schedule, &layout, StateSpec(), nullptr}, setup.capacity, {});
  const StepRows rows = FullStep(setup.capacity);

  const CostModel truth(Machine(4e9, 1e11, 2e8));
  const CostModel believed(Machine(2e10, 4e11, 1e9));
  const StepTimeline measured = Simulate(program, rows, truth);
  StepCosts costs(program);
  costs.Add(measured, rows);
  costs.Add(measured, rows);
  const CostModel corrected = costs.Correct(believed);

  EXPECT_LT(Simulate(program, rows, believed).seconds, 0.5 * measured.seconds);
  EXPECT_NEAR(Simulate(program, rows, corrected).seconds, measured.seconds,
              0.01 * measured.seconds);
  EXPECT_NEAR(corrected.rates().h2d_bytes, 4e9, 0.1e9);
  EXPECT_NEAR(corrected.rates().host_update, 2e8, 0.1e8);
}

}  // namespace
}  // namespace lazytrain
