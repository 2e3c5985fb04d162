#include "train/replan.h"

#include <algorithm>
#include <chrono>

#include "program/simulator.h"
#include "train/plan_inputs.h"

namespace lazytrain {
namespace {

// The first step touches memory and loads kernels for the first time.
constexpr int64_t kFirst = 2;
constexpr int64_t kLast = 4;
// A new schedule has to be better by this.
constexpr double kBetter = 0.97;
// Of what is left of a run, that a search may take; shorter searches find nothing.
constexpr double kShare = 0.02;
constexpr double kLeastSeconds = 1;

bool IsBetter(const PlannedStep& step, double than) {
  return step.fits && step.simulated < kBetter * than;
}

}  // namespace

Replanner::Replanner(const Config& config, const RunPlan& plan, const KernelTable& kernels)
    : config_(config), plan_(plan), kernels_(kernels), measured_(plan.programs->training()) {}

// Waits for a search that is under way: it reads the plan.
Replanner::~Replanner() {
  if (search_.valid()) search_.wait();
}

void Replanner::Observe(const StepTimeline& timeline, const StepRows& rows, double seconds_left) {
  if (config_.memory.replan != "auto" || !plan_.search) return;
  ++observed_;
  if (observed_ < kFirst || observed_ > kLast) return;
  measured_.Add(timeline, rows);
  if (observed_ < kLast) return;
  const double seconds =
      std::min(static_cast<double>(config_.memory.solve_seconds), kShare * seconds_left);
  if (seconds < kLeastSeconds) return;
  corrected_ = measured_.Correct(plan_.cost);
  search_ = std::async(std::launch::async, [this, seconds] { return Search(seconds); });
}

bool Replanner::ready() const {
  return search_.valid() && search_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

Replanner::Result Replanner::Take() { return search_.get(); }

Replanner::Result Replanner::Search(double seconds) const {
  const ProgramSet& programs = *plan_.programs;
  const Program& program = programs.training();
  Result result;
  result.cost = corrected_;
  result.current = Simulate(program, FullStep(program.capacity), corrected_).seconds;

  const StateSpec states{true, programs.options().gradient_dtype};
  const int64_t store = StoreBytes(programs.model(), states, program.capacity);
  SearchInput input = MakeSearchInput(config_, programs.model(), states, corrected_, &kernels_,
                                      plan_.device_budget, HostActivationBytes(config_, store));
  input.seconds = seconds / 2;
  SearchInput same = input;
  same.capacities = {program.capacity};
  // Stored gradients are rounded between passes.
  if (!plan_.key.passes.empty()) same.division = plan_.key.passes;
  result.better = SearchSchedule(same);
  result.replaces = IsBetter(result.better, result.current);

  result.other = SearchSchedule(input);
  const double best = result.replaces ? result.better.simulated : result.current;
  result.is_reported = IsBetter(result.other, best);
  return result;
}

}  // namespace lazytrain
