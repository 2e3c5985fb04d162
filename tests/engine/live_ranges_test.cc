// The arena is never touched outside live ranges, whatever the plan; and who does touch it is
// found.
#include "engine/live_ranges.h"

#include <gtest/gtest.h>

#include "program/waits.h"
#include "tests/engine/random_run.h"

namespace lazytrain {
namespace {

// A copy from the host to the device and back, in memory that another buffer had before.
struct SmallProgram {
  SmallProgram() {
    program.lanes = {{"compute", LaneKind::kCompute}};
    program.buffers = {{"kept", kDeviceSpace, 256, 0, true},
                       {"first", kDeviceSpace, 512, 256, false},
                       {"second", kDeviceSpace, 256, 512, false}};
    program.peak_bytes[kDeviceSpace] = 1024;
    Add({}, {1});
    Add({1}, {});
    Add({}, {2});
  }

  void Add(std::vector<int> reads, std::vector<int> writes) {
    Instruction instruction;
    instruction.reads = std::move(reads);
    instruction.writes = std::move(writes);
    program.instructions.push_back(instruction);
  }

  std::byte* At(const RunMemory& memory, int64_t offset) const {
    return memory.block(kDeviceSpace).base() + offset;
  }

  Program program;
};

class LiveRangesTest : public ::testing::Test {
 protected:
  LiveRangesTest() : device_(MakeDevice()), memory_(*device_, programs_) {}

  static std::unique_ptr<Device> MakeDevice() {
    VirtualAcceleratorOptions options;
    options.poison = true;
    return MakeVirtualAccelerator(options);
  }

  SmallProgram small_;
  const Program* const programs_[1] = {&small_.program};
  std::unique_ptr<Device> device_;
  RunMemory memory_;
};

TEST_F(LiveRangesTest, AGoodRunPasses) {
  LiveRanges ranges(small_.program, memory_);
  for (int i = 0; i < 3; ++i) {
    ranges.Begin(i);
    if (i == 0) *small_.At(memory_, 300) = std::byte{1};
    if (i == 2) *small_.At(memory_, 600) = std::byte{1};
    ranges.End(i);
  }
  *small_.At(memory_, 10) = std::byte{1};  // persistent: whenever
  EXPECT_NO_THROW(ranges.CheckUnused());
}

#if !defined(__SANITIZE_ADDRESS__)  // which would end the tests at the writes themselves
TEST_F(LiveRangesTest, WritesAfterTheLastUseAreFoundByTheNextOwner) {
  LiveRanges ranges(small_.program, memory_);
  for (int i = 0; i < 2; ++i) {
    ranges.Begin(i);
    ranges.End(i);
  }
  *small_.At(memory_, 600) = std::byte{1};
  EXPECT_THROW(ranges.Begin(2), Error);
}

TEST_F(LiveRangesTest, WritesToUnusedMemoryAreFoundAtTheEnd) {
  LiveRanges ranges(small_.program, memory_);
  for (int i = 0; i < 3; ++i) {
    ranges.Begin(i);
    ranges.End(i);
  }
  *small_.At(memory_, 1000) = std::byte{1};
  EXPECT_THROW(ranges.CheckUnused(), Error);
}
#endif

// A thousand plans, each for a machine and a cap of its own: memory is what the plan says, and no
// more than the cap wherever that is possible at all.
TEST(LiveRanges, AThousandPlansKeepToTheirMemory) {
  int capped = 0;
  for (uint64_t round = 0; round < 1000; ++round) {
    Random random(StreamSeed(21, round));
    testing::RandomSetup setup = testing::MakeRandomSetup(random);
    setup.steps.resize(2);
    const ModelGraph model = setup.Graph();
    const Schedule schedule = testing::RandomSchedule(random, model, setup.capacity, nullptr);
    const CostModel machine = testing::RandomMachine(random);
    ProgramSetOptions options = testing::OptionsOf(setup);
    options.tuning = {&machine, 0};  // the smallest there is
    const int64_t least =
        ProgramSet(setup.Graph(), schedule, options).training().peak_bytes[kDeviceSpace];
    options.tuning->device_bytes = least + random.Between(0, least);
    const ProgramSet programs(setup.Graph(), schedule, options);
    const Program& program = programs.training();
    ASSERT_LE(program.peak_bytes[kDeviceSpace], options.tuning->device_bytes);
    if (program.peak_bytes[kDeviceSpace] > least) ++capped;
    for (const Program* each : programs.all()) CheckOrder(*each);
    const testing::CheckedRunResult run = testing::CheckedRun(setup, programs);
    for (int space = 0; space < kSpaces; ++space) {
      ASSERT_EQ(run.allocated[space], programs.PeakBytes(space)) << round;
    }
  }
  EXPECT_GT(capped, 100);  // the memory was put to use
}

}  // namespace
}  // namespace lazytrain
