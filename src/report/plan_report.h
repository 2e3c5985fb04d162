// What a person reads of a plan: a table for the terminal, and one page that explains it.
#pragma once

#include <string>
#include <vector>

#include "plan/planner.h"
#include "program/simulator.h"

namespace lazytrain {

// What one more of a resource would buy, from the bounds of the planner's program.
struct ResourcePrice {
  std::string resource;  // "1 GB of device memory"
  double seconds = 0;    // shorter step
};

struct PlanReport {
  std::string title;  // the model's name
  const ModelGraph* model = nullptr;
  const Schedule* schedule = nullptr;
  const Program* program = nullptr;
  const StepTimeline* timeline = nullptr;  // simulated
  const PlanResult* plan = nullptr;        // null: the schedule was given
  double device_cap = 0;                   // bytes
  int64_t device_bytes = 0;
  int64_t activation_bytes = 0;  // host memory that programs own
  int64_t store_bytes = 0;       // weights, gradients, optimizer states
  double tokens = 0;             // of a step
  double recompute_seconds = 0;
  std::vector<ResourcePrice> prices;
};

// Compute seconds of a program that run something a second time.
double RecomputeSeconds(const Program& program, const StepTimeline& timeline);

// The sentence: what limits this run, and what would help most.
std::string Explain(const PlanReport& report);

std::string PlanTable(const PlanReport& report);

// A self-contained page: tiers of every layer and value, device memory over the step against the
// cap, the lanes with their stalls. Needs neither network nor colour to be read.
std::string PlanPage(const PlanReport& report);

}  // namespace lazytrain
