// What a run's planner and predictions believe of the machine: numbers given by hand, a profile, or
// measurements.
#pragma once

#include <string>
#include <vector>

#include "device/device.h"
#include "model/graph.h"
#include "plan/capacity.h"
#include "plan/cost_model.h"
#include "train/config/config.h"

namespace lazytrain {

struct BelievedCosts {
  CostModel cost;
  std::string origin;  // where the numbers came from, for people
};

// Every hardware.* number of the configuration goes before others; they come from the file
// hardware.profile, or from the profile of this machine in $HOME/.cache/lazytrain, to which what is
// missing for this model and these micro-batches is added by measuring it. Nothing is measured
// where the configuration gives every rate. Measuring takes at most about memory.device_memory_gb
// of device memory; afterwards Device::UsedBytes counts what the driver loads for the model's ops,
// measured or not. Throws Error for an unreadable hardware.profile; a cache that cannot be read or
// written is noted.
BelievedCosts FindCosts(const Config& config, Device& device, const ModelGraph& model,
                        const std::vector<Capacity>& capacities);

// `measured`, but for the numbers that the configuration gives.
CostModel WithGivenRates(const CostModel& measured, const HardwareSettings& hardware);

// A machine of which only rates are known: those given, guesses for others.
CostModel CostsOfRates(const HardwareSettings& hardware);

}  // namespace lazytrain
