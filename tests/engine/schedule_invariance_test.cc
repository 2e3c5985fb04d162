// The promise that holds the project together: a schedule never changes a bit.
#include <gtest/gtest.h>

#include "program/waits.h"
#include "tests/engine/random_run.h"

namespace lazytrain {
namespace {

// Runs `rounds` random models, each under `schedules` random schedules, against the all-resident
// run of the same numerics key.
void CheckRandomSchedules(uint64_t seed, int rounds, int schedules) {
  for (int round = 0; round < rounds; ++round) {
    Random random(StreamSeed(seed, static_cast<uint64_t>(round)));
    const testing::RandomSetup setup = testing::MakeRandomSetup(random);
    const ModelGraph model = setup.Graph();
    Schedule resident = ResidentSchedule(model, setup.capacity);
    // With bf16 gradients the passes are part of the key: every schedule of this model has the
    // same.
    const bool passes_matter = setup.gradient_dtype == DType::kBF16;
    if (passes_matter) {
      resident.passes = testing::RandomSchedule(random, model, setup.capacity, nullptr).passes;
    }
    const std::string expected =
        testing::CheckedRun(setup, ProgramSet(setup.Graph(), resident, testing::OptionsOf(setup)))
            .bits;
    for (int s = 0; s < schedules; ++s) {
      const Schedule schedule = testing::RandomSchedule(random, model, setup.capacity,
                                                        passes_matter ? &resident.passes : nullptr);
      CheckSchedule(schedule, model, setup.capacity, "random");
      // Transfers timed for some machine, with any amount of memory to spend on it.
      const CostModel machine = testing::RandomMachine(random);
      ProgramSetOptions options = testing::OptionsOf(setup);
      const int64_t budget = random.Between(0, 2) * int64_t{100000};
      if (random.Below(4) != 0) options.tuning = {&machine, budget};
      const ProgramSet programs(setup.Graph(), schedule, options);
      for (const Program* program : programs.all()) CheckOrder(*program);
      ASSERT_EQ(testing::CheckedRun(setup, programs).bits, expected)
          << "seed " << seed << " round " << round << " schedule " << s << "\n"
          << setup.config.dump() << "\n"
          << ScheduleToJson(schedule, model).dump(1);
    }
  }
}

TEST(ScheduleInvariance, RandomSchedules) { CheckRandomSchedules(1, 80, 5); }

// A run may change its schedule between any two steps.
TEST(ScheduleInvariance, AnotherScheduleGoesOn) {
  for (uint64_t round = 0; round < 20; ++round) {
    Random random(StreamSeed(3, round));
    const testing::RandomSetup setup = testing::MakeRandomSetup(random);
    const ModelGraph model = setup.Graph();
    const Schedule first = testing::RandomSchedule(random, model, setup.capacity, nullptr);
    const Schedule second = testing::RandomSchedule(random, model, setup.capacity, &first.passes);
    const ProgramSet one(setup.Graph(), first, testing::OptionsOf(setup));
    const ProgramSet other(setup.Graph(), second, testing::OptionsOf(setup));
    ASSERT_EQ(testing::CheckedRun(setup, {&one, &other}).bits, testing::CheckedRun(setup, one).bits)
        << "round " << round << "\n"
        << setup.config.dump();
  }
}

// Ten thousand schedules; labelled slow.
TEST(ScheduleInvarianceSlow, RandomSchedules) { CheckRandomSchedules(2, 2000, 5); }

}  // namespace
}  // namespace lazytrain
