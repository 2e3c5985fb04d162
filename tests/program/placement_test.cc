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
    const ProgramSet programs = testing::RandomPrograms(random, setup);
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

// Buffer k lives in instruction k only, all of one size.
Program InTurn(int count) {
  Program program;
  program.lanes = {{"compute", LaneKind::kCompute}};
  for (int k = 0; k < count; ++k) {
    program.buffers.push_back({"value", kDeviceSpace, 256, 0, false});
    Instruction instruction;
    instruction.writes = {k};
    program.instructions.push_back(instruction);
  }
  return program;
}

std::vector<int64_t> Offsets(int64_t device_bytes) {
  Program program = InTurn(3);
  PlaceBuffers(program, PersistentLayout(), {2, 1, 2}, device_bytes);
  EXPECT_LE(program.peak_bytes[kDeviceSpace], std::max<int64_t>(device_bytes, 512));
  std::vector<int64_t> offsets;
  for (const Buffer& buffer : program.buffers) offsets.push_back(buffer.offset);
  return offsets;
}

// The first buffer is held to the end: its memory is taken only where there is no other.
TEST(Placement, HoldsAsLongAsMemoryAllows) {
  EXPECT_EQ(Offsets(0), (std::vector<int64_t>{0, 256, 256}));
  EXPECT_EQ(Offsets(512), (std::vector<int64_t>{0, 256, 256}));
  EXPECT_EQ(Offsets(256), (std::vector<int64_t>{0, 0, 0}));
}

// Programs whose transfers hold a lot: within the cap whenever what has to be there is well below.
TEST(Placement, KeepsToACapThatHoldingAloneWouldPass) {
  HardwareRates rates;
  rates.h2d_bytes = rates.d2h_bytes = 3e6;
  rates.gemm_flops = 1e9;
  const CostModel cost(rates);
  int held_back = 0;
  for (uint64_t round = 0; round < 40; ++round) {
    Random random(StreamSeed(22, round));
    const testing::RandomSetup setup = testing::MakeRandomSetup(random);
    const ModelGraph model = setup.Graph();
    const Schedule schedule = testing::RandomSchedule(random, model, setup.capacity, nullptr);
    ProgramSetOptions options = testing::OptionsOf(setup);
    const auto peak = [&](int64_t cap) {
      options.tuning = TransferTuning{&cost, cap};
      const ProgramSet programs(setup.Graph(), schedule, options);
      return programs.training().peak_bytes[kDeviceSpace];
    };
    const int64_t least = peak(1);
    const int64_t most = peak(int64_t{1} << 40);
    const int64_t cap = least + (most - least) / 2;
    EXPECT_LE(peak(cap), cap);
    held_back += cap < most ? 1 : 0;
  }
  EXPECT_GT(held_back, 10);
}

}  // namespace
}  // namespace lazytrain
