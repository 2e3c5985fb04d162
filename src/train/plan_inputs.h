// What a plan starts from, as a configuration says it: sizes of steps and of memory.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/capacity.h"
#include "plan/cost_model.h"
#include "program/persistent.h"
#include "train/config/config.h"
#include "train/plan_search.h"

namespace lazytrain {

// A step program lists every micro-batch.
inline constexpr int64_t kMaxMicroBatches = 4096;

// The largest micro-batch and step that a configuration allows. Throws Error for settings that do
// not fit together, and for steps of more than kMaxMicroBatches.
Capacity CapacityOf(const Config& config);

// The same, and others with micro-batches of other sizes, for the planner to choose from.
std::vector<Capacity> CapacitiesOf(const Config& config);

// Bytes that there are: as given, or as the system reports.
int64_t HostMemory(const Config& config);

// Weights, gradients and optimizer states in host memory.
int64_t StoreBytes(const ModelGraph& model, const StateSpec& states, const Capacity& capacity);

// What the host may keep for activations: as given, or what weights and states leave of it.
int64_t HostActivationBytes(const Config& config, int64_t store);

// The search that a configuration asks for. Model, cost and kernels must outlive it.
SearchInput MakeSearchInput(const Config& config, const ModelGraph& model, const StateSpec& states,
                            const CostModel& cost, const KernelTable* kernels, int64_t device_bytes,
                            int64_t host_activation_bytes);

}  // namespace lazytrain
