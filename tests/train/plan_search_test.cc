// Plans of small models: as good as the best of all schedules, and what runs is what was planned.
#include "train/plan_search.h"

#include <gtest/gtest.h>

#include "program/simulator.h"
#include "tests/engine/random_run.h"

namespace lazytrain {
namespace {

Json Model(int64_t layers) {
  return {{"model_type", "llama"},
          {"vocab_size", 60},
          {"hidden_size", 32},
          {"intermediate_size", 64},
          {"num_hidden_layers", layers},
          {"num_attention_heads", 2},
          {"max_position_embeddings", 256},
          {"tie_word_embeddings", false}};
}

testing::RandomSetup SmallSetup(int64_t layers, int64_t micro_batches) {
  testing::RandomSetup setup;
  setup.config = Model(layers);
  setup.capacity.micro_batch_tokens = 64;
  setup.capacity.longest_document = 32;
  setup.capacity.documents = 32;
  setup.capacity.micro_batches = micro_batches;
  return setup;
}

// Rates of a small machine on which one resource is scarce.
struct Machine {
  const char* scarce;
  double h2d, d2h, host, flops, update;
};

constexpr Machine kMachines[] = {
    {"compute", 1e9, 1e9, 4e9, 2e8, 1e9},   {"h2d", 2e7, 1e9, 4e9, 2e9, 1e9},
    {"d2h", 1e9, 2e7, 4e9, 2e9, 1e9},       {"host memory", 1e9, 1e9, 5e7, 2e9, 1e9},
    {"optimizer", 1e9, 1e9, 4e9, 2e9, 2e6},
};

CostModel CostOf(const Machine& machine) {
  HardwareRates rates;
  rates.h2d_bytes = machine.h2d;
  rates.d2h_bytes = machine.d2h;
  rates.host_bytes = machine.host;
  rates.gemm_flops = machine.flops;
  rates.device_bytes = machine.flops;
  rates.host_update = machine.update;
  rates.device_update = machine.flops / 10;
  rates.launch_seconds = 1e-6;
  return CostModel(rates);
}

Program Compile(const SearchInput& input, const Schedule& schedule, const Capacity& capacity) {
  const PersistentLayout layout = MakePersistentLayout(*input.model, schedule, input.states, 0);
  return CompileTraining({input.model, &schedule, &layout, input.states, nullptr}, capacity,
                         TransferTuning{input.cost, input.device_bytes});
}

// A search with more host memory than it takes; the device's cap is the test's.
SearchInput InputFor(const ModelGraph& model, const CostModel& cost, const Capacity& capacity,
                     double seconds) {
  SearchInput input;
  input.model = &model;
  input.cost = &cost;
  input.capacities = {capacity};
  input.device_bytes = int64_t{1} << 40;
  input.host_activation_bytes = 1'000'000'000;
  input.seconds = seconds;
  return input;
}

// Device memory of a schedule that keeps nothing, and of one that keeps everything.
std::pair<int64_t, int64_t> MemoryRange(const SearchInput& input, const Capacity& capacity) {
  Schedule least = IntervalSchedule(*input.model, capacity, 1);
  Schedule most = ResidentSchedule(*input.model, capacity);
  for (UnitPlan& unit : most.units) unit = UnitPlan();
  return {Compile(input, least, capacity).peak_bytes[kDeviceSpace],
          Compile(input, most, capacity).peak_bytes[kDeviceSpace]};
}

// All schedules that keep or drop two groups of each layer, on any tier.
double BestOfAll(const SearchInput& input, const Capacity& capacity) {
  std::vector<std::pair<size_t, size_t>> choices;
  const SegmentChain& chain = input.model->loss;
  for (size_t s = 0; s < chain.size(); ++s) {
    for (size_t g = 0; g < chain[s].graph->groups.size(); ++g) {
      if (input.space.MayKeep(chain, s, g)) choices.emplace_back(s, g);
    }
  }
  Schedule schedule = IntervalSchedule(*input.model, capacity, 1);
  for (SegmentPlan& plan : schedule.segments) {
    for (Tier& tier : plan.tiers) tier = Tier::kRecompute;
  }
  int64_t count = 1;
  for (size_t i = 0; i < choices.size(); ++i) count *= 3;
  constexpr Tier kTiers[] = {Tier::kDevice, Tier::kHost, Tier::kRecompute};
  double best = kInfinity;
  for (int64_t number = 0; number < count; ++number) {
    int64_t rest = number;
    for (const auto& [s, g] : choices) {
      schedule.segments[s].tiers[g] = kTiers[rest % 3];
      rest /= 3;
    }
    const Program program = Compile(input, schedule, capacity);
    if (program.peak_bytes[kDeviceSpace] > input.device_bytes) continue;
    best = std::min(best, Simulate(program, FullStep(capacity), *input.cost).seconds);
  }
  return best;
}

void CheckAgainstAll(int64_t layers) {
  const testing::RandomSetup setup = SmallSetup(layers, 4);
  const ModelGraph model = setup.Graph();
  for (const Machine& machine : kMachines) {
    const CostModel cost = CostOf(machine);
    SearchInput input = InputFor(model, cost, setup.capacity, 8);
    input.passes = {1};
    input.space.residency = false;
    input.space.groups = {"out", "qkv"};
    const auto [least, most] = MemoryRange(input, setup.capacity);
    for (const double share : {0.3, 0.7}) {
      input.device_bytes = least + static_cast<int64_t>(share * static_cast<double>(most - least));
      const PlannedStep planned = SearchSchedule(input);
      ASSERT_TRUE(planned.fits) << machine.scarce;
      EXPECT_LE(planned.simulated, 1.001 * BestOfAll(input, setup.capacity))
          << machine.scarce << ", " << share;
    }
  }
}

TEST(PlanSearch, SmallCasesAreAsGoodAsTheBestOfAll) { CheckAgainstAll(2); }

// 729 schedules for each machine and budget, about four minutes; labelled slow.
TEST(PlanSearchSlow, SmallCasesAreAsGoodAsTheBestOfAll) { CheckAgainstAll(3); }

// Where everything has room, however short the search: never slower than training as usual, updated
// where that is best.
TEST(PlanSearch, IsNoWorseThanTrainingAsUsual) {
  const testing::RandomSetup setup = SmallSetup(6, 6);
  const ModelGraph model = setup.Graph();
  for (const Machine& machine : kMachines) {
    const CostModel cost = CostOf(machine);
    const SearchInput input = InputFor(model, cost, setup.capacity, 0.01);
    const PlannedStep planned = SearchSchedule(input);
    ASSERT_TRUE(planned.fits) << machine.scarce;
    for (const int64_t passes : {1, 6}) {
      Schedule usual = ResidentSchedule(model, setup.capacity);
      usual.passes = EvenPasses(setup.capacity.micro_batches, passes);
      for (const UpdatePlace place : {UpdatePlace::kHost, UpdatePlace::kDevice}) {
        if (place == UpdatePlace::kDevice) UpdateOnDevice(usual);
        const Program program = Compile(input, usual, setup.capacity);
        EXPECT_LE(planned.simulated, Simulate(program, FullStep(setup.capacity), cost).seconds)
            << machine.scarce << ", " << passes;
      }
    }
  }
}

// Stored gradients are rounded between passes: another number of them gives other bits.
TEST(PlanSearch, KeepsToThePassesThatAreAskedFor) {
  const testing::RandomSetup setup = SmallSetup(4, 6);
  const ModelGraph model = setup.Graph();
  for (const Machine& machine : kMachines) {
    const CostModel cost = CostOf(machine);
    SearchInput input = InputFor(model, cost, setup.capacity, 0.01);
    const auto [least, most] = MemoryRange(input, setup.capacity);
    for (const int64_t bytes : {least, (least + most) / 2, int64_t{1} << 40}) {
      input.device_bytes = bytes;
      input.division = {1, 3, 2};
      EXPECT_EQ(SearchSchedule(input).schedule.passes, input.division) << machine.scarce;
      input.division.clear();
      input.passes = {2};
      EXPECT_EQ(SearchSchedule(input).schedule.passes.size(), 2) << machine.scarce;
      input.passes.clear();
    }
  }
}

// Each machine's plan runs on the virtual clock: memory, order and stalls as planned, bits those of
// the all-resident run, never slower than the interval schedules at the same cap.
TEST(PlanSearch, WhatRunsIsWhatWasPlanned) {
  testing::RandomSetup setup = SmallSetup(4, 6);
  const ModelGraph model = setup.Graph();
  Random random(5);
  for (int s = 0; s < 3; ++s) {
    setup.steps.push_back(testing::RandomStep(random, 60, 12, setup.capacity));
  }
  const std::string expected =
      testing::CheckedRun(setup, ProgramSet(setup.Graph(), ResidentSchedule(model, setup.capacity),
                                            testing::OptionsOf(setup)))
          .bits;
  for (const Machine& machine : kMachines) {
    const CostModel cost = CostOf(machine);
    SearchInput input = InputFor(model, cost, setup.capacity, 6);
    const auto [least, most] = MemoryRange(input, setup.capacity);
    input.device_bytes = (least + most) / 2;
    const PlannedStep planned = SearchSchedule(input);
    ASSERT_TRUE(planned.fits) << machine.scarce;
    for (const int64_t interval : {1, 2, 4}) {
      const Schedule schedule = IntervalSchedule(model, setup.capacity, interval);
      const Program program = Compile(input, schedule, setup.capacity);
      if (program.peak_bytes[kDeviceSpace] > input.device_bytes) continue;
      EXPECT_LE(planned.simulated, Simulate(program, FullStep(setup.capacity), cost).seconds);
    }
    ProgramSetOptions options = testing::OptionsOf(setup);
    options.tuning = {&cost, input.device_bytes};
    const ProgramSet programs(setup.Graph(), planned.schedule, options);
    EXPECT_EQ(programs.training().peak_bytes[kDeviceSpace], planned.device_bytes);
    EXPECT_LE(planned.device_bytes, input.device_bytes);
    const testing::CheckedRunResult run = testing::CheckedRun(setup, programs);
    EXPECT_EQ(run.bits, expected) << machine.scarce;

    VirtualAcceleratorOptions accelerator;
    accelerator.clock = ClockMode::kVirtual;
    accelerator.host_bytes_per_second = cost.rates().host_bytes;
    accelerator.threads = 1;
    const std::unique_ptr<Device> device = MakeVirtualAccelerator(accelerator);
    TrainingEngine engine(*device, programs, cost, {});
    engine.LoadWeights([&](const UnitSpec& unit, const UnitMemory& memory) {
      InitializeUnit(unit, setup.seed, 0.3, memory);
    });
    engine.Step(setup.steps[0], 1e-2);
    const StepTimeline measured = engine.Step(setup.steps[1], 1e-2).timeline;
    const StepTimeline predicted = Simulate(programs.training(), RowsOf(setup.steps[1]), cost);
    EXPECT_NEAR(measured.seconds, predicted.seconds, 1e-9 * predicted.seconds);
    for (size_t cause = 0; cause < measured.lanes.size(); ++cause) {
      EXPECT_NEAR(measured.lanes[kComputeLane].stalled[cause],
                  predicted.lanes[kComputeLane].stalled[cause], 1e-9 * predicted.seconds);
    }
  }
}

}  // namespace
}  // namespace lazytrain
