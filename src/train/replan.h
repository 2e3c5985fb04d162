// Planning again: after its first steps a run knows the machine better than any measurement before
// it could. Beside the steps that follow, the planner searches with the corrected times; what it
// finds in the same numerics key may replace the schedule between two steps, bits and all.
#pragma once

#include <future>
#include <memory>
#include <optional>

#include "profile/step_costs.h"
#include "train/run_plan.h"

namespace lazytrain {

class Replanner {
 public:
  // `plan` and `kernels` have to stay until Finished or destruction; so does the plan's program
  // set.
  Replanner(const Config& config, const RunPlan& plan, const KernelTable& kernels);
  ~Replanner();
  Replanner(const Replanner&) = delete;
  Replanner& operator=(const Replanner&) = delete;

  // A step was run and took these times; about `seconds_left` of the run are to come. The first
  // few start the search, if the run is long enough for one.
  void Observe(const StepTimeline& timeline, const StepRows& rows, double seconds_left);

  // The search has ended and its result was not yet taken.
  bool ready() const;

  struct Result {
    CostModel cost;            // corrected
    double current = 0;        // seconds of a full step, by it: of the schedule that is there
    PlannedStep better;        // of the same numerics key
    bool replaces = false;     // better by enough
    PlannedStep other;         // of any key
    bool is_reported = false;  // better than both by enough
  };
  Result Take();

 private:
  Result Search(double seconds) const;

  const Config& config_;
  const RunPlan& plan_;
  const KernelTable& kernels_;
  StepCosts measured_;
  CostModel corrected_;
  int64_t observed_ = 0;
  std::future<Result> search_;
};

}  // namespace lazytrain
