#include "program/persistent.h"

#include <algorithm>

#include "core/units.h"

namespace lazytrain {
namespace {

class LayoutBuilder {
 public:
  LayoutBuilder(const ModelGraph& model, const Schedule& schedule, const StateSpec& states,
                int64_t context)
      : model_(model), schedule_(schedule), states_(states), context_(context) {}

  PersistentLayout Build() {
    layout_.units.resize(model_.units.size());
    layout_.uses.resize(model_.units.size());
    for (size_t s = 0; s < model_.loss.size(); ++s) {
      const std::vector<int>& units = model_.loss[s].units;
      for (size_t slot = 0; slot < units.size(); ++slot) {
        layout_.uses[static_cast<size_t>(units[slot])].push_back(
            {static_cast<int>(s), static_cast<int>(slot)});
      }
    }
    for (size_t u = 0; u < model_.units.size(); ++u) {
      AddHost(u);
      AddDevice(u);
    }
    if (context_ > 0) AddOpStates();
    return std::move(layout_);
  }

 private:
  int Add(const std::string& name, int space, int64_t bytes) {
    bytes = RoundUp(bytes, kAlignment);
    layout_.buffers.push_back({name, space, bytes, layout_.bytes[space], true});
    layout_.bytes[space] += bytes;
    return static_cast<int>(layout_.buffers.size()) - 1;
  }

  void AddHost(size_t u) {
    const UnitSpec& unit = model_.units[u];
    UnitBuffers& at = layout_.units[u];
    at.weights = Add(unit.name + ".weights", kStoreSpace, unit.bytes);
    if (!states_.training || !IsTrainable(unit)) return;
    if (NeedsMasterLow(unit)) {
      at.master_low = Add(unit.name + ".master_low", kStoreSpace, unit.elements * 2);
    }
    at.moment1 = Add(unit.name + ".moment1", kStoreSpace, unit.elements * 4);
    at.moment2 = Add(unit.name + ".moment2", kStoreSpace, unit.elements * 4);
    for (size_t use = 0; use < layout_.uses[u].size(); ++use) {
      at.gradients.push_back(Add(GradientName(unit, use), kStoreSpace, GradientBytes(unit)));
    }
  }

  void AddDevice(size_t u) {
    const UnitSpec& unit = model_.units[u];
    const UnitPlan& plan = schedule_.units[u];
    UnitBuffers& at = layout_.units[u];
    if (plan.weights_resident) {
      at.device_weights = Add(unit.name + ".device_weights", kDeviceSpace, unit.bytes);
    }
    if (!states_.training || !IsTrainable(unit)) return;
    if (plan.accumulator_resident) {
      for (size_t use = 0; use < layout_.uses[u].size(); ++use) {
        at.device_accumulators.push_back(
            Add(GradientName(unit, use) + ".accumulator", kDeviceSpace, unit.elements * 4));
      }
    }
    if (plan.update == UpdatePlace::kDevice) {
      at.device_gradient = Add(unit.name + ".device_gradient", kDeviceSpace, GradientBytes(unit));
    }
    if (plan.states == Tier::kDevice) {
      if (NeedsMasterLow(unit)) {
        at.device_master_low =
            Add(unit.name + ".device_master_low", kDeviceSpace, unit.elements * 2);
      }
      at.device_moment1 = Add(unit.name + ".device_moment1", kDeviceSpace, unit.elements * 4);
      at.device_moment2 = Add(unit.name + ".device_moment2", kDeviceSpace, unit.elements * 4);
    }
  }

  void AddOpStates() {
    RowCounts rows;
    rows.context = context_;
    for (size_t s = 0; s < model_.generation.size(); ++s) {
      const std::vector<ValueSpec>& values = model_.generation[s].graph->values;
      for (size_t v = 0; v < values.size(); ++v) {
        if (values[v].origin != ValueOrigin::kState) continue;
        layout_.op_states[{static_cast<int>(s), static_cast<int>(v)}] = Add(
            model_.generation[s].name + "." + values[v].name, kDeviceSpace, values[v].Bytes(rows));
      }
    }
  }

  static bool NeedsMasterLow(const UnitSpec& unit) {
    return std::any_of(unit.parameters.begin(), unit.parameters.end(),
                       [](const auto& p) { return p.trainable && p.dtype != DType::kF32; });
  }

  int64_t GradientBytes(const UnitSpec& unit) const {
    return unit.elements * SizeOf(states_.gradient_dtype);
  }

  static std::string GradientName(const UnitSpec& unit, size_t use) {
    return unit.name + ".gradient" + (use == 0 ? "" : std::to_string(use));
  }

  const ModelGraph& model_;
  const Schedule& schedule_;
  const StateSpec& states_;
  int64_t context_;
  PersistentLayout layout_;
};

}  // namespace

PersistentLayout MakePersistentLayout(const ModelGraph& model, const Schedule& schedule,
                                      const StateSpec& states, int64_t context) {
  return LayoutBuilder(model, schedule, states, context).Build();
}

std::vector<UnitParameter> TrainableParameters(const UnitSpec& unit) {
  std::vector<UnitParameter> parameters;
  for (const ParameterSpec& p : unit.parameters) {
    if (!p.trainable) continue;
    parameters.push_back({p.elements(), p.element_offset, p.byte_offset, p.dtype, p.decays});
  }
  return parameters;
}

bool IsTrainable(const UnitSpec& unit) {
  return std::any_of(unit.parameters.begin(), unit.parameters.end(),
                     [](const auto& p) { return p.trainable; });
}

}  // namespace lazytrain
