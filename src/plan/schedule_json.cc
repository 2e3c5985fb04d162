// The JSON form of a schedule: what people read, diff and edit.
#include <algorithm>
#include <array>
#include <string_view>

#include "core/error.h"
#include "plan/schedule.h"

namespace lazytrain {
namespace {

constexpr int kVersion = 1;

struct TierName {
  Tier tier;
  std::string_view name;
};
constexpr std::array kTierNames = {TierName{Tier::kDevice, "device"}, TierName{Tier::kHost, "host"},
                                   TierName{Tier::kNvme, "nvme"},
                                   TierName{Tier::kRecompute, "recompute"}};

std::string TierToText(Tier tier) {
  return std::string(kTierNames[static_cast<size_t>(tier)].name);
}

// Reads members of an object; every error names the path to them.
class Reader {
 public:
  Reader(const Json& json, std::string place) : json_(json), place_(std::move(place)) {
    if (!json.is_object()) throw UsageError("{}: has to be an object", place_);
  }

  const Json& At(std::string_view key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) throw UsageError("{}: '{}' is missing", place_, key);
    return *found;
  }
  Reader Object(std::string_view key) const { return {At(key), Under(key)}; }

  template <typename T>
  T Get(std::string_view key) const {
    try {
      return At(key).get<T>();
    } catch (const Json::exception&) {
      RefuseType(key);
    }
  }

  // The library would cut 1.5 to 1 and take true for 1.
  int64_t Whole(std::string_view key) const {
    if (!At(key).is_number_integer()) RefuseType(key);
    return Get<int64_t>(key);
  }
  std::vector<int64_t> WholeNumbers(std::string_view key) const {
    if (!At(key).is_array()) RefuseType(key);
    for (const Json& item : At(key)) {
      if (!item.is_number_integer()) RefuseType(key);
    }
    return Get<std::vector<int64_t>>(key);
  }

  Tier GetTier(std::string_view key) const {
    const auto text = Get<std::string>(key);
    for (const TierName& known : kTierNames) {
      if (known.name == text) return known.tier;
    }
    throw UsageError("{}: there is no tier '{}'; device, host, nvme and recompute are", Under(key),
                     text);
  }

  // One of two words.
  bool Choice(std::string_view key, std::string_view yes, std::string_view no) const {
    const auto text = Get<std::string>(key);
    if (text != yes && text != no) {
      throw UsageError("{}: '{}' is neither {} nor {}", Under(key), text, yes, no);
    }
    return text == yes;
  }

  // Only the given keys.
  template <typename Names>
  void Only(const Names& names) const {
    for (const auto& [key, value] : json_.items()) {
      if (std::find(names.begin(), names.end(), key) == names.end()) {
        throw UsageError("{}: nothing here is called '{}'", place_, key);
      }
    }
  }

  std::string Under(std::string_view key) const { return place_ + ": " + std::string(key); }

 private:
  [[noreturn]] void RefuseType(std::string_view key) const {
    throw UsageError("{}: {} has the wrong type", Under(key), At(key).dump());
  }

  const Json& json_;
  std::string place_;
};

template <typename Items>
std::vector<std::string> Names(const Items& items) {
  std::vector<std::string> names;
  names.reserve(items.size());
  for (const auto& item : items) names.push_back(item.name);
  return names;
}

UnitPlan ReadUnit(const Reader& reader) {
  reader.Only(std::array<std::string_view, 4>{"weights", "accumulator", "states", "update"});
  UnitPlan plan;
  plan.weights_resident = reader.Choice("weights", "resident", "streamed");
  plan.accumulator_resident = reader.Choice("accumulator", "resident", "streamed");
  plan.states = reader.GetTier("states");
  plan.update =
      reader.Choice("update", "device", "host") ? UpdatePlace::kDevice : UpdatePlace::kHost;
  return plan;
}

}  // namespace

Json ScheduleToJson(const Schedule& schedule, const ModelGraph& model) {
  Json json = {{"version", kVersion},
               {"name", schedule.name},
               {"model_shape", model.ShapeHash()},
               {"micro_batch_tokens", schedule.micro_batch_tokens},
               {"passes", schedule.passes}};
  Json& units = json["units"] = Json::object();
  for (size_t u = 0; u < schedule.units.size(); ++u) {
    const UnitPlan& plan = schedule.units[u];
    units[model.units[u].name] = {
        {"weights", plan.weights_resident ? "resident" : "streamed"},
        {"accumulator", plan.accumulator_resident ? "resident" : "streamed"},
        {"states", TierToText(plan.states)},
        {"update", plan.update == UpdatePlace::kDevice ? "device" : "host"}};
  }
  Json& layers = json["layers"] = Json::object();
  for (size_t s = 0; s < schedule.segments.size(); ++s) {
    Json& layer = layers[model.loss[s].name] = Json::object();
    const std::vector<ValueGroup>& groups = model.loss[s].graph->groups;
    for (size_t g = 0; g < groups.size(); ++g) {
      layer[groups[g].name] = TierToText(schedule.segments[s].tiers[g]);
    }
  }
  return json;
}

Schedule ScheduleFromJson(const Json& json, const ModelGraph& model, const Capacity& capacity,
                          const std::string& place) {
  const Reader top(json, place);
  if (const auto version = top.Whole("version"); version != kVersion) {
    throw UsageError("{}: version {} of the format; this program reads {}", place, version,
                     kVersion);
  }
  if (top.Get<std::string>("model_shape") != model.ShapeHash()) {
    throw UsageError(
        "{}: model_shape: the schedule was made for a model of another shape; make one for this "
        "model",
        place);
  }
  Schedule schedule;
  schedule.name = place;
  schedule.micro_batch_tokens = top.Whole("micro_batch_tokens");
  if (schedule.micro_batch_tokens != capacity.micro_batch_tokens) {
    throw UsageError(
        "{}: micro_batch_tokens: the schedule was made for {}, this run has {}; set "
        "memory.micro_batch_tokens to match",
        place, schedule.micro_batch_tokens, capacity.micro_batch_tokens);
  }
  schedule.passes = top.WholeNumbers("passes");
  const Reader units = top.Object("units");
  units.Only(Names(model.units));
  for (const UnitSpec& unit : model.units) {
    schedule.units.push_back(ReadUnit(units.Object(unit.name)));
  }
  const Reader layers = top.Object("layers");
  layers.Only(Names(model.loss));
  for (const Segment& segment : model.loss) {
    const Reader layer = layers.Object(segment.name);
    layer.Only(Names(segment.graph->groups));
    SegmentPlan plan;
    for (const ValueGroup& group : segment.graph->groups) {
      plan.tiers.push_back(layer.GetTier(group.name));
    }
    schedule.segments.push_back(std::move(plan));
  }
  CheckSchedule(schedule, model, capacity, place);
  return schedule;
}

}  // namespace lazytrain
