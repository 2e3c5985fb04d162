// From configuration to compiled programs: everything about a run that can be known before it
// starts, on any machine.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/training_engine.h"
#include "model/hub_config.h"
#include "plan/cost_model.h"
#include "plan/numerics_key.h"
#include "program/program_set.h"
#include "train/config/config.h"
#include "train/plan_search.h"

namespace lazytrain {

struct RunPlan {
  DType dtype = DType::kBF16;
  std::unique_ptr<ProgramSet> programs;
  EngineOptions engine;
  CostModel cost;           // what is believed of the machine
  CostModel demand;         // how long work takes at least, when the device is throttled
  std::string cost_origin;  // where that came from, for people
  NumericsKey key;
  int64_t device_cap = 0;     // bytes
  int64_t device_budget = 0;  // of them, for programs of any schedule; the rest is the driver's
  int64_t device_fixed = 0;   // what the driver takes beside this schedule's programs
  std::optional<PlannedStep> search;  // where the planner made the schedule

  int64_t device_bytes() const { return programs->PeakBytes(kDeviceSpace); }
  // What the driver will report for the process.
  int64_t device_total() const { return device_bytes() + device_fixed; }
  int64_t host_bytes() const {
    return programs->PeakBytes(kHostSpace) + programs->PeakBytes(kStoreSpace);
  }
};

// The device that a configuration names, throttled if it says so.
std::unique_ptr<Device> OpenDevice(const Config& config);

// Throws Error when the plan does not fit the device (naming the smallest cap that would do) or the
// host, when max_seq_len is above the model's context, and for impossible schedules.
RunPlan MakeRunPlan(const Config& config, const HubConfig& model, Device& device);

// Another schedule of the same numerics key in the plan's place, and what is believed by now.
// Throws InternalError for one of another key.
void Replace(RunPlan& plan, PlannedStep step, const CostModel& cost);

// schedule.json of the run: the schedule, its capacity, numerics key, hardware numbers, and what
// was predicted for it.
Json DescribePlan(const RunPlan& plan, const CostModel& cost, double predicted_seconds);

}  // namespace lazytrain
