// Runs step programs on a device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "engine/batch.h"
#include "engine/live_ranges.h"
#include "engine/run_memory.h"
#include "ops/kernel.h"
#include "ops/unit_kernels.h"
#include "plan/cost_model.h"
#include "program/program.h"
#include "program/simulator.h"

namespace lazytrain {

struct RunResult {
  // The global gradient norm; absent if the program makes no gradients. Not finite if a gradient is
  // not.
  std::optional<double> gradient_norm;
  StepTimeline timeline;  // measured, or on the virtual clock
};

class Executor {
 public:
  // `memory` and `device` must outlive it. `cost` tells devices that model time what work demands.
  // `check_memory`: every access is held to the program's plan (LiveRanges).
  Executor(Device& device, RunMemory& memory, const CostModel& cost, bool check_memory);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Looks up every kernel; throws Error naming an op that this device cannot run.
  void Prepare(const Program& program);

  // Runs a program on a step of at most its capacity. Updates in it apply `pending`; with none they
  // do nothing.
  RunResult Run(const Program& program, std::span<const MicroBatch> step,
                const std::optional<AdamWScalars>& pending);

  // A result of the last run: one row a token or selected row.
  std::span<const float> Result(const Program& program, size_t micro_batch, std::string_view name,
                                int64_t elements) const;

 private:
  class Dispatcher;

  void FillInputs(const Program& program, std::span<const MicroBatch> step);
  void Enqueue(const Program& program, int index, const StepRows& rows, LiveRanges* ranges,
               const std::optional<AdamWScalars>& pending, RunResult& result);
  Event& EventAt(std::vector<std::unique_ptr<Event>>& pool, size_t index);

  Device& device_;
  RunMemory& memory_;
  const CostModel& cost_;
  bool check_memory_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<std::unique_ptr<Event>> starts_;
  std::vector<std::unique_ptr<Event>> ends_;
};

}  // namespace lazytrain
