// A schedule: for every value of every segment where it waits for backward, for every weight unit
// what stays on the device and where it is updated, and how a step is cut into passes. It changes
// time and memory, never results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"
#include "model/graph.h"
#include "plan/capacity.h"

namespace lazytrain {

// Where the values of a group are between forward and backward.
enum class Tier { kDevice, kHost, kNvme, kRecompute };

enum class UpdatePlace { kHost, kDevice };

struct UnitPlan {
  bool weights_resident = false;      // stay on the device; else fetched for each use
  bool accumulator_resident = false;  // gradient stays on the device between passes
  Tier states = Tier::kHost;          // master, moments: host or device
  UpdatePlace update = UpdatePlace::kHost;
  bool operator==(const UnitPlan&) const = default;
};

struct SegmentPlan {
  std::vector<Tier> tiers;  // for each group of the segment's graph
  bool operator==(const SegmentPlan&) const = default;
};

struct Schedule {
  std::string name;  // what made it: "resident", "interval:4", a file, the planner
  int64_t micro_batch_tokens = 0;
  std::vector<int64_t> passes;  // micro-batches of each pass; they add up to the capacity's
  std::vector<UnitPlan> units;
  std::vector<SegmentPlan> segments;  // of the loss chain
  bool operator==(const Schedule&) const = default;
};

// Everything stays on the device: ordinary training. Updates run on the host.
Schedule ResidentSchedule(const ModelGraph& model, const Capacity& capacity);

// Updates run on the device. Units that never leave it have their states there: nothing of them has
// a reason to be sent back and forth.
void UpdateOnDevice(Schedule& schedule);

// The group that holds what the next segment takes in; -1 for the last segment.
int OutputGroup(const SegmentChain& chain, size_t segment);

// The MegaTrain baseline: the input of every `interval`-th layer is kept on the device, the rest is
// recomputed once, weights and gradients are streamed. Throws Error unless interval >= 1.
Schedule IntervalSchedule(const ModelGraph& model, const Capacity& capacity, int64_t interval);

// `spec` is "resident", "interval:K" or the path of a schedule file.
Schedule ScheduleFromSpec(const std::string& spec, const ModelGraph& model,
                          const Capacity& capacity);

// The parts of schedule.json that a schedule is; `model` gives units, layers and groups their
// names.
Json ScheduleToJson(const Schedule& schedule, const ModelGraph& model);

// Throws Error naming the place in the file: another model's shape, unknown units, layers, groups
// or tiers, passes that do not add up.
Schedule ScheduleFromJson(const Json& json, const ModelGraph& model, const Capacity& capacity,
                          const std::string& place);

// Throws Error when the schedule asks for what cannot be (a tier that does not exist yet, states on
// the device updated on the host, passes that do not add up); `place` names its origin.
void CheckSchedule(const Schedule& schedule, const ModelGraph& model, const Capacity& capacity,
                   const std::string& place);

}  // namespace lazytrain
