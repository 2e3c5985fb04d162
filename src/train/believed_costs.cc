#include "train/believed_costs.h"

#include <algorithm>
#include <set>

#include "core/clock.h"
#include "core/error.h"
#include "core/units.h"
#include "ops/kernel.h"
#include "profile/profile_cache.h"

namespace lazytrain {
namespace {

bool AllGiven(const HardwareSettings& hardware) {
  return hardware.h2d_gbps && hardware.d2h_gbps && hardware.host_gbps && hardware.gemm_tflops &&
         !hardware.throttle;
}

// Calls `visit` with every op and direction of the loss chain that the device has kernels for, each
// once.
template <typename Visit>
void ForEachOp(const Device& device, const ModelGraph& model, const Visit& visit) {
  std::set<std::string> seen;
  for (const Segment& segment : model.loss) {
    for (const OpNode& node : segment.graph->nodes) {
      if (!seen.insert(node.op->Signature()).second) continue;
      for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
        if (KernelsFor(device).Has(*node.op, direction)) visit(node.op->Signature(), direction);
      }
    }
  }
}

bool KnowsAllOps(const MachineProfile& profile, const Device& device, const ModelGraph& model,
                 const RowCounts& rows) {
  bool all = true;
  ForEachOp(device, model, [&](const std::string& signature, Direction direction) {
    const OpTime* time = profile.Find(signature, direction, rows);
    all = all && time != nullptr && SameSizes(*time, rows);
  });
  return all;
}

BelievedCosts FromFile(const Config& config, const Device& device, const ModelGraph& model,
                       const std::vector<RowCounts>& sizes) {
  const std::string& file = config.hardware.profile;
  if (!std::filesystem::is_regular_file(file)) {
    throw UsageError("{}: '{}' is no file; make one with lazytrain profile --out {}, or take auto",
                     config.Place("hardware.profile"), file, file);
  }
  const MachineProfile profile = MachineProfile::FromJson(ReadJsonFile(file), file);
  int64_t ops = 0;
  int64_t known = 0;
  ForEachOp(device, model, [&](const std::string& signature, Direction direction) {
    ++ops;
    if (profile.Find(signature, direction, sizes.front()) != nullptr) ++known;
  });
  std::string origin = fmt::format("{} ({})", file, profile.machine.device);
  if (known < ops) {
    origin += fmt::format("; {} of {} ops are not in it and count by rates", ops - known, ops);
  }
  return {profile.Costs(model, sizes), origin};
}

// Times the model's ops.
void AddOps(Device& device, const ModelGraph& model, const RowCounts& rows,
            MachineProfile& profile) {
  const std::vector<OpTime> times = MeasureOps(device, model, rows, OpTimingFor(device));
  profile.Add(times);
  profile.rates.gemm_flops = std::max(profile.rates.gemm_flops, GemmRate(model, times));
}

BelievedCosts OfThisMachine(Device& device, const ModelGraph& model,
                            const std::vector<RowCounts>& sizes, int64_t room) {
  const MachineDescription machine = MachineDescription::Of(device);
  const Path path = CachedProfilePath(machine);
  const double start = SecondsNow();
  std::optional<MachineProfile> cached = ReadCachedProfile(path, machine);
  MachineProfile profile = cached.value_or(MachineProfile{machine, {}, {}});
  if (!cached) profile.rates = MeasureRates(device, room);
  std::vector<RowCounts> unknown;
  for (const RowCounts& rows : sizes) {
    if (rows.tokens > 0 && !KnowsAllOps(profile, device, model, rows)) unknown.push_back(rows);
  }
  if (cached && unknown.empty()) {
    return {profile.Costs(model, sizes), fmt::format("{}, measured before", path.string())};
  }
  for (const RowCounts& rows : unknown) AddOps(device, model, rows, profile);
  const double seconds = SecondsNow() - start;
  const bool kept = WriteCachedProfile(path, profile);
  return {profile.Costs(model, sizes), fmt::format("measured in {}{}", FormatSeconds(seconds),
                                                   kept ? ", kept in " + path.string() : "")};
}

int64_t NumbersGiven(const HardwareSettings& hardware) {
  int64_t count = 0;
  for (const Auto<double>* number :
       {&hardware.h2d_gbps, &hardware.d2h_gbps, &hardware.host_gbps, &hardware.gemm_tflops}) {
    if (*number) ++count;
  }
  return count;
}

}  // namespace

CostModel WithGivenRates(const CostModel& measured, const HardwareSettings& hardware) {
  CostModel cost = measured;
  HardwareRates& rates = cost.rates();
  if (hardware.h2d_gbps) rates.h2d_bytes = *hardware.h2d_gbps * 1e9;
  if (hardware.d2h_gbps) rates.d2h_bytes = *hardware.d2h_gbps * 1e9;
  if (hardware.host_gbps) rates.host_bytes = *hardware.host_gbps * 1e9;
  if (hardware.gemm_tflops) rates.gemm_flops = *hardware.gemm_tflops * 1e12;
  // A throttled update takes what its memory traffic takes; what was measured had others beside it.
  if (hardware.throttle && hardware.host_gbps) {
    rates.host_update = HardwareRates::Unlimited().host_update;
  }
  return cost;
}

CostModel CostsOfRates(const HardwareSettings& hardware) {
  // Device memory moves about a byte while its matrix units do 200 operations; updates take what
  // their memory traffic takes.
  HardwareRates rates;
  rates.device_bytes = hardware.gemm_tflops.value_or(rates.gemm_flops / 1e12) * 1e12 / 200;
  rates.device_update = rates.device_bytes / 26;
  rates.host_update = HardwareRates::Unlimited().host_update;
  return WithGivenRates(CostModel(rates), hardware);
}

BelievedCosts FindCosts(const Config& config, Device& device, const ModelGraph& model,
                        const std::vector<Capacity>& capacities) {
  const HardwareSettings& hardware = config.hardware;
  const bool automatic = hardware.profile == "auto";
  const bool all_given = automatic && AllGiven(hardware);
  const BelievedCosts by_hand = {CostsOfRates(hardware), "as given by hardware.*"};
  // The virtual accelerator loads nothing.
  if (all_given && device.backend() == "cpu") return by_hand;
  const int64_t room = BytesFromGB(config.memory.device_memory_gb) - device.UsedBytes();
  std::vector<RowCounts> sizes;
  for (const Capacity& capacity : capacities) {
    const RowCounts rows = RowsToMeasure(device, model, capacity.MicroBatchRows(), room);
    const bool known = std::any_of(sizes.begin(), sizes.end(), [&](const RowCounts& size) {
      return size.tokens == rows.tokens;
    });
    if (!known) sizes.push_back(rows);
  }
  if (device.backend() != "cpu" && sizes.front().tokens > 0) LoadOps(device, model, sizes.front());
  if (all_given) return by_hand;
  BelievedCosts costs = automatic ? OfThisMachine(device, model, sizes, room)
                                  : FromFile(config, device, model, sizes);
  costs.cost = WithGivenRates(costs.cost, hardware);
  if (const int64_t given = NumbersGiven(hardware); given > 0) {
    costs.origin += fmt::format("; {} number{} as given", given, given == 1 ? "" : "s");
  }
  return costs;
}

}  // namespace lazytrain
