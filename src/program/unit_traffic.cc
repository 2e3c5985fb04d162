#include "program/unit_traffic.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace lazytrain {

UnitTraffic::UnitTraffic(ProgramWriter& writer, const ModelGraph& model, const Schedule& schedule,
                         const StateSpec& states, bool update)
    : writer_(writer), model_(model), schedule_(schedule), states_(states), update_(update) {
  for (size_t u = 0; u < model.units.size(); ++u) {
    const UnitBuffers& buffers = writer_.persistent().units[u];
    const size_t uses = writer_.persistent().uses[u].size();
    UnitState state;
    state.weights = buffers.device_weights;
    state.accumulators = buffers.device_accumulators;
    state.accumulators.resize(uses, -1);
    state.to_widen.resize(uses, -1);
    state.written.assign(uses, std::vector<bool>(model.units[u].parameters.size(), false));
    units_.push_back(std::move(state));
    partial_sum_offsets_.push_back(partial_sum_bytes_);
    partial_sum_bytes_ += PartialSumCount(writer_.program().unit_parameters[u]) *
                          static_cast<int64_t>(sizeof(double));
  }
}

int UnitTraffic::UnitOf(const UnitUse& use) const {
  return model_.loss[use.segment].units[use.slot];
}

int UnitTraffic::UseIndex(int segment, int slot) const {
  const int unit = model_.loss[segment].units[slot];
  const std::vector<UnitUse>& uses = writer_.persistent().uses[unit];
  for (size_t i = 0; i < uses.size(); ++i) {
    if (uses[i].segment == segment && uses[i].slot == slot) return static_cast<int>(i);
  }
  throw InternalError("segment {} does not use its own unit", segment);
}

void UnitTraffic::FetchWeights(const Stage& stage, int number) {
  for (const int unit : stage.units) {
    units_[unit].last_wanted = std::max(units_[unit].last_wanted, number);
    Fetch(unit, stage.pass);
  }
}

void UnitTraffic::FetchGradients(const Stage& stage) {
  for (const UnitUse& use : stage.gradients) FetchGradient(use, stage.pass);
}

void UnitTraffic::BeginStage(const Stage& stage, int number) {
  for (size_t u = 0; u < units_.size(); ++u) {
    // Its memory is free after its last use.
    if (!schedule_.units[u].weights_resident && units_[u].last_wanted < number) {
      units_[u].weights = -1;
    }
  }
  for (const int unit : stage.units) UpdateOnDevice(unit);
  for (const UnitUse& use : stage.gradients) MakeAccumulator(use, stage.pass);
}

void UnitTraffic::Fetch(int unit, int pass) {
  UnitState& state = units_[unit];
  const UnitBuffers& buffers = writer_.persistent().units[unit];
  const bool resident = schedule_.units[unit].weights_resident;
  const bool first = !state.updated;
  if (first) StartUpdate(unit);
  // A resident unit is fetched again when the host has changed it: once a program that updates.
  const bool stale =
      resident && first && update_ && schedule_.units[unit].update == UpdatePlace::kHost;
  if (state.weights >= 0 && !stale) return;
  const std::string& name = model_.units[unit].name;
  if (!resident) {
    state.weights = writer_.NewBuffer(name + ".weights", kDeviceSpace, model_.units[unit].bytes);
  }
  writer_.Copy(kH2dLane, fmt::format("fetch {}", name), writer_.Whole(buffers.weights),
               writer_.Whole(state.weights), -1, pass);
}

void UnitTraffic::StartUpdate(int unit) {
  units_[unit].updated = true;
  if (!update_ || !IsTrainable(model_.units[unit])) return;
  if (schedule_.units[unit].update == UpdatePlace::kHost) {
    UpdateOnHost(unit);
  } else {
    FetchStates(unit);
  }
}

void UnitTraffic::UpdateOnHost(int unit) {
  const UnitBuffers& buffers = writer_.persistent().units[unit];
  UpdateAction update;
  update.unit = unit;
  update.weights = writer_.Whole(buffers.weights);
  if (buffers.master_low >= 0) update.master_low = writer_.Whole(buffers.master_low);
  update.moment1 = writer_.Whole(buffers.moment1);
  update.moment2 = writer_.Whole(buffers.moment2);
  update.gradient = StoredGradient(buffers.gradients[0]);
  writer_.Add(kHostLane, fmt::format("update {}", model_.units[unit].name), update);
}

int UnitTraffic::FetchState(int unit, int host, int resident, const std::string& what) {
  if (host < 0 || resident >= 0) return resident;
  const std::string name = model_.units[unit].name + "." + what;
  const int device = writer_.NewBuffer(name, kDeviceSpace, writer_.Whole(host).cols);
  writer_.Copy(kH2dLane, "fetch " + name, writer_.Whole(host), writer_.Whole(device));
  return device;
}

void UnitTraffic::StoreState(int unit, const Operand& device, int host, int resident,
                             const std::string& what) {
  if (host < 0 || resident >= 0) return;
  writer_.Copy(kD2hLane, fmt::format("store {}.{}", model_.units[unit].name, what), device,
               writer_.Whole(host));
  writer_.Hold(device.buffer);
}

// The states pass through the device (or are there).
void UnitTraffic::FetchStates(int unit) {
  UnitState& state = units_[unit];
  const UnitBuffers& b = writer_.persistent().units[unit];
  state.weights = FetchState(unit, b.weights, b.device_weights, "weights");
  UpdateAction update;
  update.unit = unit;
  const int low = FetchState(unit, b.master_low, b.device_master_low, "master_low");
  const int moment1 = FetchState(unit, b.moment1, b.device_moment1, "moment1");
  const int moment2 = FetchState(unit, b.moment2, b.device_moment2, "moment2");
  update.weights = writer_.Whole(state.weights);
  if (low >= 0) update.master_low = writer_.Whole(low);
  update.moment1 = writer_.Whole(moment1);
  update.moment2 = writer_.Whole(moment2);
  update.gradient = StoredGradient(b.device_gradient);
  state.arriving = update;
}

// The updated weights stay for the stage.
void UnitTraffic::UpdateOnDevice(int unit) {
  if (!units_[unit].arriving) return;
  const UpdateAction update = *std::exchange(units_[unit].arriving, std::nullopt);
  const UnitBuffers& b = writer_.persistent().units[unit];
  writer_.Add(kComputeLane, fmt::format("update {}", model_.units[unit].name), update);
  StoreState(unit, update.weights, b.weights, b.device_weights, "weights");
  StoreState(unit, update.master_low, b.master_low, b.device_master_low, "master_low");
  StoreState(unit, update.moment1, b.moment1, b.device_moment1, "moment1");
  StoreState(unit, update.moment2, b.moment2, b.device_moment2, "moment2");
}

void UnitTraffic::FetchGradient(const UnitUse& use, int pass) {
  if (pass == 0 || schedule_.units[UnitOf(use)].accumulator_resident) return;
  const int unit = UnitOf(use);
  const int index = UseIndex(use.segment, use.slot);
  UnitState& state = units_[unit];
  if (state.accumulators[index] >= 0 || state.to_widen[index] >= 0) return;
  const std::string name = fmt::format("{}.gradient{}", model_.units[unit].name, index);
  const int stored = writer_.persistent().units[unit].gradients[index];
  const int fetched = writer_.NewBuffer(name, kDeviceSpace, writer_.Whole(stored).cols);
  writer_.Copy(kH2dLane, "fetch " + name, writer_.Whole(stored), writer_.Whole(fetched), -1, pass);
  if (states_.gradient_dtype == DType::kF32) {
    state.accumulators[index] = fetched;
  } else {
    state.to_widen[index] = fetched;
  }
}

void UnitTraffic::MakeAccumulator(const UnitUse& use, int pass) {
  const int unit = UnitOf(use);
  const int index = UseIndex(use.segment, use.slot);
  UnitState& state = units_[unit];
  if (state.accumulators[index] < 0) {
    state.accumulators[index] =
        writer_.NewBuffer(fmt::format("{}.accumulator{}", model_.units[unit].name, index),
                          kDeviceSpace, model_.units[unit].elements * SizeOf(DType::kF32));
  }
  if (state.to_widen[index] < 0) return;
  WidenGradientAction widen{unit, writer_.Whole(state.accumulators[index]),
                            StoredGradient(state.to_widen[index]), false};
  writer_.Add(kComputeLane, fmt::format("widen {}", model_.units[unit].name), widen, -1, pass);
  state.to_widen[index] = -1;
}

Operand UnitTraffic::StoredGradient(int buffer) const {
  Operand operand = writer_.Whole(buffer);
  operand.dtype = states_.gradient_dtype;
  operand.cols /= SizeOf(operand.dtype);
  return operand;
}

Operand UnitTraffic::Weight(int segment, const WeightRef& ref) const {
  const int unit = model_.loss[segment].units[ref.slot];
  const ParameterSpec& parameter = model_.units[unit].parameters[ref.parameter];
  if (units_[unit].weights < 0) {
    throw InternalError("'{}' is not on the device", model_.units[unit].name);
  }
  return {units_[unit].weights, parameter.byte_offset, parameter.dtype,
          Rows::kFixed,         parameter.rows,        parameter.cols};
}

Operand UnitTraffic::Gradient(int segment, const WeightRef& ref) const {
  const int unit = model_.loss[segment].units[ref.slot];
  const ParameterSpec& parameter = model_.units[unit].parameters[ref.parameter];
  if (!parameter.trainable) return {};
  const int accumulator = units_[unit].accumulators[UseIndex(segment, ref.slot)];
  return {accumulator,    parameter.element_offset * SizeOf(DType::kF32),
          DType::kF32,    Rows::kFixed,
          parameter.rows, parameter.cols};
}

bool UnitTraffic::Accumulates(int segment, const WeightRef& ref) {
  const int unit = model_.loss[segment].units[ref.slot];
  auto written = units_[unit].written[UseIndex(segment, ref.slot)].begin() + ref.parameter;
  const bool before = *written;
  *written = true;
  return before;
}

void UnitTraffic::EndStage(const Stage& stage) {
  const bool last_pass = stage.pass + 1 == static_cast<int>(schedule_.passes.size());
  for (const UnitUse& use : stage.gradients) StoreGradient(use, stage.pass, last_pass);
}

void UnitTraffic::StoreGradient(const UnitUse& use, int pass, bool last_pass) {
  const int unit = UnitOf(use);
  const auto index = static_cast<size_t>(UseIndex(use.segment, use.slot));
  // The first use in the forward sweep is the last to finish: it gathers the others.
  const bool final = last_pass && index == 0;
  if (final) AddOtherUses(unit, pass);
  RoundAndStore(unit, index, pass, final);
  if (!schedule_.units[unit].accumulator_resident) units_[unit].accumulators[index] = -1;
}

void UnitTraffic::AddOtherUses(int unit, int pass) {
  UnitState& state = units_[unit];
  const UnitBuffers& buffers = writer_.persistent().units[unit];
  const bool resident = schedule_.units[unit].accumulator_resident;
  for (size_t use = 1; use < state.accumulators.size(); ++use) {
    WidenGradientAction add;
    add.unit = unit;
    add.add = true;
    add.accumulator = writer_.Whole(state.accumulators[0]);
    if (resident) {
      add.stored = writer_.Whole(state.accumulators[use]);
      add.stored.dtype = DType::kF32;
    } else {
      const std::string name = fmt::format("{}.gradient{}", model_.units[unit].name, use);
      const int host = buffers.gradients[use];
      const int fetched = writer_.NewBuffer(name, kDeviceSpace, writer_.Whole(host).cols);
      writer_.Copy(kH2dLane, "fetch " + name, writer_.Whole(host), writer_.Whole(fetched), -1,
                   pass);
      add.stored = StoredGradient(fetched);
    }
    writer_.Add(kComputeLane, fmt::format("sum gradients {}", model_.units[unit].name), add, -1,
                pass);
  }
}

// Rounds to the stored dtype and puts the result where it rests: on the device between passes if
// the accumulator is resident, for an update on the device, or else on the host.
void UnitTraffic::RoundAndStore(int unit, size_t use, int pass, bool final) {
  const UnitBuffers& buffers = writer_.persistent().units[unit];
  const std::string& name = model_.units[unit].name;
  const int accumulator = units_[unit].accumulators[use];
  const bool is_float = states_.gradient_dtype == DType::kF32;
  const bool on_device = final && schedule_.units[unit].update == UpdatePlace::kDevice;
  const bool stays = !final && schedule_.units[unit].accumulator_resident;

  RoundGradientAction round;
  round.unit = unit;
  round.accumulator = writer_.Whole(accumulator);
  round.stored = round.accumulator;
  round.stored.dtype = states_.gradient_dtype;
  if (final) round.partial_sums = PartialSums(unit);
  int stored = accumulator;
  if (on_device) {
    stored = buffers.device_gradient;
  } else if (!stays && !is_float) {
    stored = writer_.NewBuffer(name + ".rounded", kDeviceSpace,
                               writer_.Whole(buffers.gradients[use]).cols);
  }
  if (stored != accumulator) round.stored = StoredGradient(stored);
  const bool nothing_to_do = is_float && !final;
  if (!nothing_to_do) {
    writer_.Add(kComputeLane, fmt::format("round {}", name), round, -1, pass);
  }
  if (stays || on_device) return;
  writer_.Copy(kD2hLane, fmt::format("store {}.gradient{}", name, use), writer_.Whole(stored),
               writer_.Whole(buffers.gradients[use]), -1, pass);
  writer_.Hold(stored);
}

Operand UnitTraffic::PartialSums(int unit) {
  if (partial_sums_ < 0) {
    partial_sums_ = writer_.NewBuffer("partial_sums", kDeviceSpace, partial_sum_bytes_);
  }
  Operand operand = writer_.Whole(partial_sums_);
  operand.offset = partial_sum_offsets_[unit];
  return operand;
}

void UnitTraffic::FinishUpdates() {
  for (size_t u = 0; u < units_.size(); ++u) {
    if (units_[u].updated) continue;
    if (schedule_.units[u].weights_resident) {
      Fetch(static_cast<int>(u), 0);
    } else {
      StartUpdate(static_cast<int>(u));
    }
    UpdateOnDevice(static_cast<int>(u));
  }
}

void UnitTraffic::EndStep() {
  if (partial_sums_ < 0) return;
  const int host = writer_.NewBuffer("partial_sums.host", kHostSpace, partial_sum_bytes_);
  Operand from = writer_.Whole(partial_sums_);
  from.cols = partial_sum_bytes_;
  Operand to = writer_.Whole(host);
  to.cols = partial_sum_bytes_;
  const int last_pass = static_cast<int>(schedule_.passes.size()) - 1;
  writer_.Copy(kD2hLane, "store partial sums", from, to, -1, last_pass);
  writer_.Add(kHostLane, "end step", EndStepAction{to}, -1, last_pass);
}

void UnitTraffic::Flush() {
  for (size_t u = 0; u < units_.size(); ++u) {
    if (schedule_.units[u].update != UpdatePlace::kDevice) continue;
    const UnitBuffers& b = writer_.persistent().units[u];
    for (const auto& [device, host] :
         {std::pair{b.device_weights, b.weights}, std::pair{b.device_master_low, b.master_low},
          std::pair{b.device_moment1, b.moment1}, std::pair{b.device_moment2, b.moment2}}) {
      if (device < 0) continue;
      writer_.Copy(kD2hLane, fmt::format("flush {}", model_.units[u].name), writer_.Whole(device),
                   writer_.Whole(host));
    }
  }
}

void UnitTraffic::Load() {
  for (size_t u = 0; u < units_.size(); ++u) {
    const UnitBuffers& b = writer_.persistent().units[u];
    for (const auto& [device, host] :
         {std::pair{b.device_weights, b.weights}, std::pair{b.device_master_low, b.master_low},
          std::pair{b.device_moment1, b.moment1}, std::pair{b.device_moment2, b.moment2}}) {
      if (device < 0) continue;
      writer_.Copy(kH2dLane, fmt::format("load {}", model_.units[u].name), writer_.Whole(host),
                   writer_.Whole(device));
    }
  }
}

}  // namespace lazytrain
