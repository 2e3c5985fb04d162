// The planner at work for a run: its schedules are compiled and simulated before one is taken, so
// that what is promised is what the program does.
#pragma once

#include "plan/planner.h"
#include "program/compiler.h"
#include "train/config/config.h"

namespace lazytrain {

struct SearchInput {
  const ModelGraph* model = nullptr;
  const CostModel* cost = nullptr;
  StateSpec states;
  const KernelTable* kernels = nullptr;  // as in CompileInput
  std::vector<Capacity> capacities;      // one for each micro-batch size to try
  int64_t device_bytes = 0;              // the cap
  int64_t host_activation_bytes = 0;
  std::vector<int64_t> passes;    // numbers to try; empty: as the planner's
  std::vector<int64_t> division;  // micro-batches of each pass; empty: as the planner's
  PlanSpace space;
  double seconds = 20;
};

struct MemoryBudget {
  double device_bytes = 0;
  double host_activation_bytes = 0;
};

// What the planner is asked with: the search's, but for capacities, passes and time.
PlannerOptions PlannerOptionsFor(const SearchInput& input, const MemoryBudget& budget);

struct PlannedStep {
  Schedule schedule;
  Capacity capacity;
  PlanResult plan;           // what the mixed-integer program says
  PlannerOptions options;    // it was asked with
  double simulated = 0;      // seconds of the compiled program; 0: nothing fits
  int64_t device_bytes = 0;  // of it
  bool fits = false;
};

// The fastest schedule that was found to fit. If none does, `schedule` is the one that needs the
// least, and device_bytes what it needs.
PlannedStep SearchSchedule(const SearchInput& input);

}  // namespace lazytrain
