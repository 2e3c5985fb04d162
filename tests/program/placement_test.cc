#include "program/placement.h"

#include <gtest/gtest.h>

#include "core/units.h"
#include "tests/engine/random_run.h"

namespace lazytrain {
namespace {

// The packing of real programs is close to what no packing can beat.
TEST(Placement, IsCloseToTheLowerBound) {
  double worst = 1.0;
  double sum = 0.0;
  constexpr int kRounds = 60;
  for (uint64_t round = 0; round < kRounds; ++round) {
    Random random(StreamSeed(21, round));
    const testing::RandomSetup setup = testing::MakeRandomSetup(random);
    const ModelGraph model = setup.Graph();
    const ProgramSet programs(setup.Graph(),
                              testing::RandomSchedule(random, model, setup.capacity, nullptr),
                              testing::OptionsOf(setup));
    const Program& program = programs.training();
    const double ratio = static_cast<double>(program.peak_bytes[kDeviceSpace]) /
                         static_cast<double>(program.device_lower_bound);
    EXPECT_GE(ratio, 1.0);
    worst = std::max(worst, ratio);
    sum += ratio;
    for (const Buffer& buffer : program.buffers) EXPECT_EQ(buffer.offset % kAlignment, 0);
  }
  EXPECT_LT(sum / kRounds, 1.05);
  EXPECT_LT(worst, 1.25);
}

}  // namespace
}  // namespace lazytrain
