// A run's plan with everything that explains it: the simulated step, and what more of each resource
// would buy.
#pragma once

#include "report/plan_report.h"
#include "train/run_plan.h"

namespace lazytrain {

class ExplainedPlan {
 public:
  // `plan` must outlive it. Solves a few linear programs more for a plan of the planner.
  ExplainedPlan(const Config& config, const RunPlan& plan);
  ExplainedPlan(const ExplainedPlan&) = delete;
  ExplainedPlan& operator=(const ExplainedPlan&) = delete;

  const PlanReport& report() const { return report_; }

 private:
  StepTimeline timeline_;
  PlanReport report_;
};

}  // namespace lazytrain
