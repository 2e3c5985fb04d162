#include "program/simulator.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace lazytrain {
namespace {

int64_t ParameterCount(const Program& program, int unit) {
  int64_t count = 0;
  for (const UnitParameter& parameter : program.unit_parameters[unit]) {
    count += parameter.elements;
  }
  return count;
}

// Bytes that an update moves through host memory, by parameter: each operand read, all but the
// gradient written.
double UpdateBytes(const Program& program, const UpdateAction& update) {
  double bytes = 0;
  const auto add = [&](const Operand& operand, double times) {
    if (operand.present())
      bytes += times * static_cast<double>(program.buffers[operand.buffer].bytes);
  };
  add(update.gradient, 1);
  for (const Operand* operand :
       {&update.weights, &update.master_low, &update.moment1, &update.moment2}) {
    add(*operand, 2);
  }
  return bytes;
}

struct DemandVisitor {
  const Program& program;
  const Instruction& instruction;
  const RowCounts& rows;
  const CostModel& cost;

  Demand operator()(const CopyAction& copy) const {
    const int64_t bytes = BytesOf(copy.from, rows);
    const HardwareRates& rates = cost.rates();
    const bool up = program.lanes[instruction.lane].kind == LaneKind::kHostToDevice;
    const double rate = up ? rates.h2d_bytes : rates.d2h_bytes;
    return {rates.launch_seconds + static_cast<double>(bytes) / rate, bytes};
  }
  Demand operator()(const OpAction& op) const {
    return {cost.OpSeconds(*op.op, op.direction, rows), 0};
  }
  Demand operator()(const RoundGradientAction& round) const {
    return DeviceSweep(ParameterCount(program, round.unit), 8);
  }
  Demand operator()(const WidenGradientAction& widen) const {
    return DeviceSweep(ParameterCount(program, widen.unit), 10);
  }
  Demand operator()(const UpdateAction& update) const {
    const auto parameters = static_cast<double>(ParameterCount(program, update.unit));
    const HardwareRates& rates = cost.rates();
    if (program.lanes[instruction.lane].kind == LaneKind::kHost) {
      // Arithmetic or memory, whichever is slower; alone it has all of the host's bandwidth.
      const double bytes = UpdateBytes(program, update);
      const double seconds = std::max(parameters / rates.host_update, bytes / rates.host_bytes);
      return {rates.launch_seconds + seconds, static_cast<int64_t>(bytes)};
    }
    return {rates.launch_seconds + parameters / rates.device_update, 0};
  }
  Demand operator()(const EndStepAction&) const { return {cost.rates().launch_seconds, 0}; }

  Demand DeviceSweep(int64_t parameters, int64_t bytes_each) const {
    return {cost.rates().launch_seconds +
                static_cast<double>(parameters * bytes_each) / cost.rates().device_bytes,
            0};
  }
};

}  // namespace

StepRows FullStep(const Capacity& capacity) {
  return StepRows(static_cast<size_t>(capacity.micro_batches), capacity.MicroBatchRows());
}

int64_t RowsOf(const Operand& operand, const RowCounts& rows) {
  switch (operand.rows) {
    case Rows::kTokens:
      return rows.tokens;
    case Rows::kSelected:
      return rows.selected;
    case Rows::kFixed:
      break;
  }
  return operand.fixed_rows;
}

int64_t BytesOf(const Operand& operand, const RowCounts& rows) {
  return RowsOf(operand, rows) * operand.cols * SizeOf(operand.dtype);
}

InstructionRows RowsOf(const Instruction& instruction, const StepRows& step) {
  if (instruction.micro_batch < 0) return {};
  const auto m = static_cast<size_t>(instruction.micro_batch);
  if (m >= step.size()) return {true, {}};
  RowCounts rows = step[m];
  rows.tokens -= instruction.first_row;
  if (instruction.rows != kAllRows) rows.tokens = std::min(rows.tokens, instruction.rows);
  if (rows.tokens <= 0) return {true, {}};
  return {false, rows};
}

Demand DemandOf(const Program& program, const Instruction& instruction, const StepRows& step,
                const CostModel& cost) {
  const InstructionRows rows = RowsOf(instruction, step);
  if (rows.skipped) return {};
  return std::visit(DemandVisitor{program, instruction, rows.rows, cost}, instruction.action);
}

StepTimeline SummarizeTimeline(const Program& program, std::vector<TimedSpan> spans) {
  StepTimeline timeline;
  timeline.lanes.resize(program.lanes.size());
  for (LaneTime& lane : timeline.lanes) lane.stalled.resize(program.lanes.size(), 0);
  std::vector<double> lane_end(program.lanes.size(), 0);
  for (const TimedSpan& span : spans) timeline.seconds = std::max(timeline.seconds, span.end);
  for (size_t i = 0; i < spans.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    LaneTime& lane = timeline.lanes[instruction.lane];
    double& end = lane_end[instruction.lane];
    lane.busy += spans[i].end - spans[i].start;
    const double gap = spans[i].start - end;
    if (gap > 0) {
      int cause = -1;
      for (const int w : instruction.waits) {
        if (cause < 0 || spans[w].end > spans[cause].end) cause = w;
      }
      if (cause < 0) {
        lane.idle += gap;
      } else {
        lane.stalled[program.instructions[cause].lane] += gap;
      }
    }
    end = spans[i].end;
  }
  for (size_t l = 0; l < lane_end.size(); ++l) {
    timeline.lanes[l].idle += timeline.seconds - lane_end[l];
  }
  timeline.spans = std::move(spans);
  return timeline;
}

std::vector<MemoryPoint> MemoryCurve(const Program& program, const StepTimeline& timeline,
                                     int space) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<TimedSpan> lives(program.buffers.size(), TimedSpan{kNever, 0});
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    for (const auto* touched : {&program.instructions[i].reads, &program.instructions[i].writes}) {
      for (const int b : *touched) {
        lives[b].start = std::min(lives[b].start, timeline.spans[i].start);
        lives[b].end = std::max(lives[b].end, timeline.spans[i].end);
      }
    }
  }
  int64_t bytes = 0;
  std::map<double, int64_t> changes;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.space != space) continue;
    if (buffer.persistent) {
      bytes += buffer.bytes;
    } else if (lives[b].start < kNever) {
      changes[lives[b].start] += buffer.bytes;
      changes[lives[b].end] -= buffer.bytes;
    }
  }
  std::vector<MemoryPoint> curve = {{0, bytes}};
  for (const auto& [seconds, change] : changes) curve.push_back({seconds, bytes += change});
  return curve;
}

StepTimeline Simulate(const Program& program, const StepRows& step, const CostModel& cost) {
  std::vector<TimedWork> work;
  work.reserve(program.instructions.size());
  for (const Instruction& instruction : program.instructions) {
    const Demand demand = DemandOf(program, instruction, step, cost);
    work.push_back({instruction.lane, instruction.waits, demand.seconds, demand.host_bytes});
  }
  return SummarizeTimeline(program, ComputeTimeline(work, static_cast<int>(program.lanes.size()),
                                                    cost.rates().host_bytes));
}

}  // namespace lazytrain
