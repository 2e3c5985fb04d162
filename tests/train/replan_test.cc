// A machine that turns out to be another than was believed.
#include "train/replan.h"

#include <gtest/gtest.h>

#include <thread>

#include "engine/training_engine.h"
#include "ops/kernel.h"
#include "program/simulator.h"
#include "train/model_folder.h"

namespace lazytrain {
namespace {

Config Believing(std::vector<std::string> more) {
  std::vector<std::string> settings = {
      std::string("model.name=") + LAZYTRAIN_SOURCE_DIR + "/examples/tinystories/model",
      "model.device=cpu", "model.dtype=float32", "dataset.max_seq_len=128", "training.batch_size=8",
      "memory.micro_batch_tokens=256", "memory.device_memory_gb=0.01",
      "memory.host_activation_gb=0.1", "memory.schedule=solve", "memory.solve_seconds=4",
      "memory.passes=1",
      // A link so slow that nothing is worth moving.
      "hardware.h2d_gbps=0.01", "hardware.d2h_gbps=0.01", "hardware.host_gbps=10",
      "hardware.gemm_tflops=0.05"};
  settings.insert(settings.end(), more.begin(), more.end());
  return ConfigFromOverrides(settings);
}

// Links without an end, arithmetic slower.
CostModel Truth() {
  HardwareRates rates;
  rates.h2d_bytes = rates.d2h_bytes = 1e11;
  rates.host_bytes = 1e12;
  rates.gemm_flops = 2e10;
  rates.device_bytes = 1e10;
  rates.host_update = 1e10;
  rates.device_update = 1e9;
  rates.launch_seconds = 0;
  return CostModel(rates);
}

class ReplanTest : public testing::Test {
 protected:
  void Make(std::vector<std::string> more = {}) {
    config_ = Believing(std::move(more));
    device_ = OpenDevice(config_);
    hub_ = std::make_unique<HubConfig>(
        HubConfig::FromFolder(FindModelFolder(config_.model.name, "model.name")));
    plan_ = std::make_unique<RunPlan>(MakeRunPlan(config_, *hub_, *device_));
  }

  // Four steps as they would be on a machine.
  void ObserveOn(Replanner& replanner, const CostModel& machine, double seconds_left) const {
    const Program& program = plan_->programs->training();
    const StepRows rows = FullStep(program.capacity);
    const StepTimeline timeline = Simulate(program, rows, machine);
    for (int step = 0; step < 4; ++step) replanner.Observe(timeline, rows, seconds_left);
  }

  Config config_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<HubConfig> hub_;
  std::unique_ptr<RunPlan> plan_;
};

TEST_F(ReplanTest, AnotherMachineGetsAnotherScheduleOfTheSameBits) {
  Make();
  const Schedule before = plan_->programs->schedule();
  auto replanner = std::make_unique<Replanner>(config_, *plan_, KernelsFor(*device_));
  ObserveOn(*replanner, Truth(), 1000);
  while (!replanner->ready()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  Replanner::Result result = replanner->Take();
  ASSERT_TRUE(result.replaces) << result.current << " s, " << result.better.simulated << " s";
  EXPECT_LT(result.better.simulated, 0.97 * result.current);
  EXPECT_LE(result.better.device_bytes, plan_->device_cap);
  EXPECT_NEAR(result.cost.rates().h2d_bytes, 1e11, 1e10);

  TrainingEngine engine(*device_, *plan_->programs, plan_->demand, plan_->engine);
  engine.LoadWeights([&](const UnitSpec& unit, const UnitMemory& memory) {
    InitializeUnit(unit, 1, 0.02, memory);
  });
  const std::vector<MicroBatch> step =
      MakeFullStep(plan_->programs->training().capacity, plan_->programs->model().vocab_size, 1);
  const double first = engine.Step(step, 1e-3).loss;
  const double second = engine.Step(step, 1e-3).loss;
  EXPECT_LT(second, first);

  // The same steps, another schedule between them.
  engine.LoadWeights([&](const UnitSpec& unit, const UnitMemory& memory) {
    InitializeUnit(unit, 1, 0.02, memory);
  });
  ASSERT_EQ(engine.Step(step, 1e-3).loss, first);
  TrainingState state = engine.Leave();
  replanner.reset();
  RunPlan again = MakeRunPlan(config_, *hub_, *device_);
  Replace(again, std::move(result.better), result.cost);
  EXPECT_NE(again.programs->schedule().segments, before.segments);
  EXPECT_EQ(again.key, plan_->key);
  TrainingEngine other(*device_, *again.programs, again.demand, again.engine, std::move(state));
  EXPECT_EQ(other.Step(step, 1e-3).loss, second);
}

// Where everything has room and links are too slow for anything else, training as usual is the best
// there is: however little a busy machine lets the searches do, the second finds nothing better.
TEST_F(ReplanTest, WhatWasBelievedHolds) {
  Make({"memory.device_memory_gb=1", "hardware.h2d_gbps=0.001", "hardware.d2h_gbps=0.001"});
  Replanner replanner(config_, *plan_, KernelsFor(*device_));
  ObserveOn(replanner, plan_->cost, 1000);
  while (!replanner.ready()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const Replanner::Result result = replanner.Take();
  EXPECT_FALSE(result.replaces) << result.current << " s, " << result.better.simulated << " s";
}

TEST_F(ReplanTest, ShortRunsAndThoseThatForbidItDoNotSearch) {
  Make();
  Replanner replanner(config_, *plan_, KernelsFor(*device_));
  ObserveOn(replanner, Truth(), 10);
  EXPECT_FALSE(replanner.ready());
  Make({"memory.replan=never"});
  Replanner never(config_, *plan_, KernelsFor(*device_));
  ObserveOn(never, Truth(), 1000);
  EXPECT_FALSE(never.ready());
}

}  // namespace
}  // namespace lazytrain
