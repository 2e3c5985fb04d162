// The search for the best schedule: every number of passes and micro-batch size by the bound of its
// linear program, the promising ones by their mixed-integer program.
#pragma once

#include <optional>
#include <vector>

#include "plan/schedule_mip.h"

namespace lazytrain {

struct PlannerOptions {
  std::vector<Capacity> capacities;  // one for each micro-batch size to try
  std::vector<int64_t> passes;       // numbers of passes to try; empty: 1 to 12
  // Micro-batches of each pass: only this division; empty: those the planner thinks of.
  std::vector<int64_t> division;
  StateBytes states;
  const KernelTable* kernels = nullptr;  // as in MakePlanCosts
  PlanBudget budget;
  PlanSpace space;
  double seconds = 20;  // for the whole search
  double gap = 0.001;   // of the step time, proven
  int threads = 2;      // linear programs solved at once; the result does not depend on it
};

// One number of passes and one micro-batch size.
struct PlanCandidate {
  Capacity capacity;
  std::vector<int64_t> passes;
  bool feasible = false;
  double bound = 0;    // no schedule of it is faster, seconds
  double seconds = 0;  // of the best that was found; 0: not solved, its bound ruled it out
};

struct PlanResult {
  bool feasible = false;
  Schedule schedule;
  Capacity capacity;
  StepEstimate estimate;
  double bound = 0;         // over all candidates
  bool time_ended = false;  // before the gap was proven
  double solve_seconds = 0;
  std::vector<PlanCandidate> candidates;

  // Of the step time: how much better a schedule could at most be.
  double gap() const { return (estimate.seconds - bound) / estimate.seconds; }
};

PlanResult PlanSchedule(const ModelGraph& model, const CostModel& cost,
                        const PlannerOptions& options);

// The lowest step time of a candidate as its linear program bounds it; kInfinity: infeasible.
double BoundOf(const ModelGraph& model, const CostModel& cost, const PlannerOptions& options,
               const Capacity& capacity, const std::vector<int64_t>& passes);

// What the mixed-integer program says of a schedule; nothing if it does not fit.
std::optional<StepEstimate> EstimateSchedule(const ModelGraph& model, const CostModel& cost,
                                             const PlannerOptions& options,
                                             const Capacity& capacity, const Schedule& schedule);

// `count` micro-batches in `passes` passes as even as can be, the smallest first.
std::vector<int64_t> EvenPasses(int64_t count, int64_t passes);

}  // namespace lazytrain
