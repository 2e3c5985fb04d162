// The program that only updates: what is left to do before evaluation, export and the end.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/units.h"
#include "program/program_set.h"
#include "tests/engine/random_run.h"

namespace lazytrain {
namespace {

// Units pass through the device one after the other, however many are updated there.
TEST(UpdateProgram, HoldsTheStatesOfOneUnitAtATime) {
  for (uint64_t round = 0; round < 30; ++round) {
    Random random(StreamSeed(41, round));
    const testing::RandomSetup setup = testing::MakeRandomSetup(random);
    const ModelGraph model = setup.Graph();
    Schedule schedule = IntervalSchedule(model, setup.capacity, 1);
    for (UnitPlan& unit : schedule.units) unit.update = UpdatePlace::kDevice;
    const ProgramSet programs(setup.Graph(), schedule, testing::OptionsOf(setup));
    const Program& update = programs.update();
    int64_t largest = 0;
    for (size_t u = 0; u < model.units.size(); ++u) {
      const UnitBuffers& of = programs.persistent().units[u];
      int64_t bytes = 0;
      for (const int buffer : {of.weights, of.master_low, of.moment1, of.moment2}) {
        if (buffer >= 0) bytes += RoundUp(update.buffers[buffer].bytes, kAlignment);
      }
      largest = std::max(largest, bytes);
    }
    const int64_t passing =
        update.peak_bytes[kDeviceSpace] - programs.persistent().bytes[kDeviceSpace];
    EXPECT_GT(passing, 0);
    EXPECT_LE(passing, largest);
  }
}

}  // namespace
}  // namespace lazytrain
