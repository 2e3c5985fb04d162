// The checks that guard programs, on programs broken on purpose.
#include "program/waits.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "core/units.h"
#include "tests/engine/random_run.h"

namespace lazytrain {
namespace {

Program SmallProgram() {
  Random random(5);
  const testing::RandomSetup setup = testing::MakeRandomSetup(random);
  const ModelGraph model = setup.Graph();
  const Schedule schedule = IntervalSchedule(model, setup.capacity, 1);
  const ProgramSet programs(setup.Graph(), schedule, testing::OptionsOf(setup));
  Program program = programs.training();
  // Ops belong to a graph that ends here; order and memory do not need them.
  for (Instruction& instruction : program.instructions) {
    if (auto* op = std::get_if<OpAction>(&instruction.action)) op->op = nullptr;
  }
  return program;
}

TEST(CheckOrder, AcceptsWhatTheCompilerMakes) { EXPECT_NO_THROW(CheckOrder(SmallProgram())); }

// No wait of the compiler is there for nothing: without any one of them two instructions could
// touch the same memory at once.
TEST(CheckOrder, NoticesEveryMissingWait) {
  const Program program = SmallProgram();
  int waits = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    for (size_t w = 0; w < program.instructions[i].waits.size(); ++w) {
      Program broken = program;
      std::vector<int>& left = broken.instructions[i].waits;
      left.erase(left.begin() + static_cast<int64_t>(w));
      EXPECT_THROW(CheckOrder(broken), Error) << program.instructions[i].name;
      ++waits;
    }
  }
  EXPECT_GT(waits, 20);
}

TEST(CheckOrder, NoticesABufferMovedOntoAnother) {
  const Program program = SmallProgram();
  int noticed = 0;
  int moved = 0;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    if (program.buffers[b].space != kDeviceSpace || program.buffers[b].offset == 0) continue;
    Program broken = program;
    broken.buffers[b].offset = 0;
    ++moved;
    try {
      CheckOrder(broken);
    } catch (const Error&) {
      ++noticed;
    }
  }
  // A buffer may by chance be free to lie at 0 as well.
  EXPECT_GT(moved, 50);
  EXPECT_GT(noticed, moved / 2);
}

TEST(CheckOrder, NoticesABufferBeyondThePeak) {
  Program program = SmallProgram();
  program.peak_bytes[kDeviceSpace] -= kAlignment;
  EXPECT_THROW(CheckOrder(program), Error);
}

}  // namespace
}  // namespace lazytrain
