// What a program will do: when each instruction runs, which lanes stand still and why, how memory
// fills. Reads the same instructions as the executor.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "device/device.h"
#include "device/timeline.h"
#include "plan/cost_model.h"
#include "program/program.h"

namespace lazytrain {

// Sizes of the step's micro-batches, one each; missing ones are empty.
using StepRows = std::vector<RowCounts>;

// Every micro-batch full.
StepRows FullStep(const Capacity& capacity);

// Rows an operand has in this micro-batch.
int64_t RowsOf(const Operand& operand, const RowCounts& rows);
int64_t BytesOf(const Operand& operand, const RowCounts& rows);

// The sizes that an instruction works on; it is skipped where its micro-batch, or its chunk of one,
// is empty.
struct InstructionRows {
  bool skipped = false;
  RowCounts rows;
};
InstructionRows RowsOf(const Instruction& instruction, const StepRows& step);

// Time and host memory traffic of one instruction.
Demand DemandOf(const Program& program, const Instruction& instruction, const StepRows& step,
                const CostModel& cost);

struct LaneTime {
  double busy = 0;
  // Standing still, by what it waited for: the lane of the last instruction waited for.
  std::vector<double> stalled;  // for each lane of the program
  double idle = 0;              // before its first and after its last instruction
};

// What one run of a program was or will be.
struct StepTimeline {
  double seconds = 0;
  std::vector<TimedSpan> spans;  // for each instruction
  std::vector<LaneTime> lanes;
};

// Busy and stall times from spans, however they were obtained.
StepTimeline SummarizeTimeline(const Program& program, std::vector<TimedSpan> spans);

// Bytes of a space in use over time, persistent buffers included: a point at every change.
struct MemoryPoint {
  double seconds = 0;
  int64_t bytes = 0;
};
std::vector<MemoryPoint> MemoryCurve(const Program& program, const StepTimeline& timeline,
                                     int space);

StepTimeline Simulate(const Program& program, const StepRows& step, const CostModel& cost);

}  // namespace lazytrain
