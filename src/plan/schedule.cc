#include "plan/schedule.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <numeric>
#include <string_view>

#include "core/error.h"

namespace lazytrain {
namespace {

Schedule Uniform(const ModelGraph& model, const Capacity& capacity, std::string name, Tier tier) {
  Schedule schedule;
  schedule.name = std::move(name);
  schedule.micro_batch_tokens = capacity.micro_batch_tokens;
  schedule.passes = {capacity.micro_batches};
  schedule.units.resize(model.units.size());
  for (const Segment& segment : model.loss) {
    schedule.segments.push_back({std::vector<Tier>(segment.graph->groups.size(), tier)});
  }
  return schedule;
}

}  // namespace

int OutputGroup(const SegmentChain& chain, size_t segment) {
  if (segment + 1 >= chain.size() || chain[segment + 1].live_ins.empty()) return -1;
  const int value = chain[segment + 1].live_ins[0].value;
  const SegmentGraph& graph = *chain[segment].graph;
  for (size_t group = 0; group < graph.groups.size(); ++group) {
    for (const int member : graph.groups[group].values) {
      if (member == value) return static_cast<int>(group);
    }
  }
  return -1;
}

Schedule ResidentSchedule(const ModelGraph& model, const Capacity& capacity) {
  Schedule schedule = Uniform(model, capacity, "resident", Tier::kDevice);
  for (UnitPlan& unit : schedule.units) {
    unit.weights_resident = true;
    unit.accumulator_resident = true;
  }
  return schedule;
}

void UpdateOnDevice(Schedule& schedule) {
  for (UnitPlan& unit : schedule.units) {
    unit.update = UpdatePlace::kDevice;
    if (unit.weights_resident && unit.accumulator_resident) unit.states = Tier::kDevice;
  }
}

Schedule IntervalSchedule(const ModelGraph& model, const Capacity& capacity, int64_t interval) {
  if (interval < 1) {
    throw UsageError("memory.checkpoint_interval is {}; it has to be 1 or more", interval);
  }
  Schedule schedule =
      Uniform(model, capacity, fmt::format("interval:{}", interval), Tier::kRecompute);
  // Segment 0 feeds layer 0, segment i feeds layer i.
  for (size_t segment = 0; segment < model.loss.size(); ++segment) {
    const int group = OutputGroup(model.loss, segment);
    if (group >= 0 && static_cast<int64_t>(segment) % interval == 0) {
      schedule.segments[segment].tiers[static_cast<size_t>(group)] = Tier::kDevice;
    }
  }
  return schedule;
}

Schedule ScheduleFromSpec(const std::string& spec, const ModelGraph& model,
                          const Capacity& capacity) {
  if (spec == "resident") return ResidentSchedule(model, capacity);
  constexpr std::string_view kInterval = "interval:";
  if (spec.starts_with(kInterval)) {
    int64_t interval = 0;
    const char* end = spec.data() + spec.size();
    const auto [stop, error] = std::from_chars(spec.data() + kInterval.size(), end, interval);
    if (error != std::errc() || stop != end) {
      throw UsageError("schedule '{}': write interval:K with a whole number K, as in interval:4",
                       spec);
    }
    return IntervalSchedule(model, capacity, interval);
  }
  if (!std::filesystem::exists(spec)) {
    throw UsageError("schedule '{}': neither resident, interval:K nor a file that exists", spec);
  }
  return ScheduleFromJson(ReadJsonFile(spec), model, capacity, spec);
}

void CheckSchedule(const Schedule& schedule, const ModelGraph& model, const Capacity& capacity,
                   const std::string& place) {
  for (const int64_t pass : schedule.passes) {
    if (pass < 1 || pass > capacity.micro_batches) {
      throw UsageError("{}: passes: a pass of {} micro-batches; a step of this run has up to {}",
                       place, pass, capacity.micro_batches);
    }
  }
  const int64_t total = std::accumulate(schedule.passes.begin(), schedule.passes.end(), int64_t{0});
  if (total != capacity.micro_batches) {
    throw UsageError("{}: passes [{}] hold {} micro-batches; a step of this run has up to {}",
                     place, fmt::join(schedule.passes, ", "), total, capacity.micro_batches);
  }
  for (size_t u = 0; u < schedule.units.size(); ++u) {
    const UnitPlan& unit = schedule.units[u];
    const std::string& name = model.units[u].name;
    if (unit.states == Tier::kNvme || unit.states == Tier::kRecompute) {
      throw UsageError("{}: units.{}.states: optimizer states are kept on host or device", place,
                       name);
    }
    if (unit.states == Tier::kDevice && unit.update == UpdatePlace::kHost) {
      throw UsageError("{}: units.{}: states on the device are updated there; set update: device",
                       place, name);
    }
  }
  for (size_t s = 0; s < schedule.segments.size(); ++s) {
    const std::vector<Tier>& tiers = schedule.segments[s].tiers;
    for (size_t g = 0; g < tiers.size(); ++g) {
      if (tiers[g] == Tier::kNvme) {
        throw UsageError("{}: layers.{}.{}: the nvme tier does not exist yet; use host", place,
                         model.loss[s].name, model.loss[s].graph->groups[g].name);
      }
    }
  }
}

}  // namespace lazytrain
