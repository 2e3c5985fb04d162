#include "program/slot_memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "program/program_set.h"
#include "tests/engine/random_run.h"

namespace lazytrain {
namespace {

int SlotsOf(const Program& program) { return program.instructions.back().slot + 1; }

// Programs issue a slot ahead and hold a slot longer: what is counted is less, but not by much.
TEST(SlotMemory, IsBelowWhatProgramsHold) {
  double sum = 0;
  constexpr int kRounds = 60;
  for (uint64_t round = 0; round < kRounds; ++round) {
    Random random(StreamSeed(31, round));
    const testing::RandomSetup setup = testing::MakeRandomSetup(random);
    const ProgramSet programs = testing::RandomPrograms(random, setup);
    const Program& program = programs.training();
    const SlotMemory memory(program, SlotsOf(program));
    int64_t most = 0;
    for (int k = 0; k < SlotsOf(program); ++k) most = std::max(most, memory.bytes(k));
    EXPECT_LE(most, program.device_lower_bound);
    sum += static_cast<double>(most) / static_cast<double>(program.device_lower_bound);
  }
  EXPECT_GT(sum / kRounds, 0.75);
}

// Three slots, each fetches a buffer, computes on it and sends it off.
Program ThreeSlots(int64_t bytes) {
  Program program;
  program.lanes = {{"compute", LaneKind::kCompute},
                   {"h2d", LaneKind::kHostToDevice},
                   {"d2h", LaneKind::kDeviceToHost}};
  for (int k = 0; k < 3; ++k) {
    program.buffers.push_back({"value", kDeviceSpace, bytes, 0, false});
    for (const int lane : {1, 0, 2}) {
      Instruction instruction;
      instruction.lane = lane;
      instruction.slot = instruction.wanted = k;
      (lane == 2 ? instruction.reads : instruction.writes) = {k};
      program.instructions.push_back(instruction);
    }
  }
  return program;
}

TEST(SlotMemory, CountsWhatIsFetchedEarlierAndKeptLonger) {
  SlotMemory memory(ThreeSlots(256), 3);
  EXPECT_EQ(memory.bytes(0), 256);
  EXPECT_FALSE(memory.FetchBy(1, 0, 511));
  EXPECT_EQ(memory.bytes(0), 256);
  EXPECT_TRUE(memory.FetchBy(1, 0, 512));
  EXPECT_EQ(memory.bytes(0), 512);
  EXPECT_TRUE(memory.KeepUntil(0, 1, 512));
  EXPECT_FALSE(memory.KeepUntil(0, 2, 511));
  EXPECT_EQ(memory.bytes(1), 512);
  EXPECT_EQ(memory.bytes(2), 256);
}

}  // namespace
}  // namespace lazytrain
