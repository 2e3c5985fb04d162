#include "train/plan_inputs.h"

#include <unistd.h>

#include <algorithm>

#include "core/error.h"
#include "core/units.h"
#include "program/persistent.h"

namespace lazytrain {
namespace {

int64_t StepTokens(const Config& config) {
  const TrainingSettings& training = config.training;
  const int64_t once = training.batch_tokens > 0 ? training.batch_tokens
                                                 : training.batch_size * config.dataset.max_seq_len;
  return once * training.gradient_accumulation_steps;
}

// The largest micro-batch and step, for micro-batches of about so many tokens.
Capacity CapacityFor(const Config& config, int64_t at_once) {
  const int64_t longest = config.dataset.max_seq_len;
  const TrainingSettings& training = config.training;
  Capacity capacity;
  capacity.longest_document = longest;
  // A document is never split between micro-batches; a longer one passes in chunks.
  capacity.micro_batch_tokens = std::max(longest, at_once);
  if (at_once < longest) capacity.chunk_tokens = at_once;
  // A document has at least two tokens, or nothing in it is predicted.
  capacity.documents = capacity.micro_batch_tokens / 2;
  const int64_t repeats = training.gradient_accumulation_steps;
  capacity.micro_batches =
      MaxMicroBatches(training.batch_size * repeats, training.batch_tokens * repeats, longest,
                      capacity.micro_batch_tokens);
  return capacity;
}

}  // namespace

Capacity CapacityOf(const Config& config) {
  const int64_t longest = config.dataset.max_seq_len;
  const int64_t at_once = config.memory.micro_batch_tokens.value_or(
      std::min(kTokensAtOnce, std::max(longest, StepTokens(config))));
  const Capacity capacity = CapacityFor(config, at_once);
  if (capacity.micro_batches > kMaxMicroBatches) {
    throw UsageError(
        "{}: a step is up to {} micro-batches of {} tokens, and {} are the most; lower it, or "
        "raise memory.micro_batch_tokens",
        config.Place(config.training.batch_tokens > 0 ? "training.batch_tokens"
                                                      : "training.batch_size"),
        capacity.micro_batches, capacity.micro_batch_tokens, kMaxMicroBatches);
  }
  return capacity;
}

std::vector<Capacity> CapacitiesOf(const Config& config) {
  std::vector<Capacity> capacities = {CapacityOf(config)};
  if (config.memory.micro_batch_tokens) return capacities;
  const int64_t step = std::max(StepTokens(config), config.dataset.max_seq_len);
  const int64_t most = std::min(step, 2 * kTokensAtOnce);
  for (const int64_t at_once : {most, most / 2, most / 4}) {
    if (at_once < std::min(config.dataset.max_seq_len, kTokensAtOnce / 2)) continue;
    const Capacity capacity = CapacityFor(config, at_once);
    const bool known = std::any_of(capacities.begin(), capacities.end(), [&](const Capacity& c) {
      return c.micro_batch_tokens == capacity.micro_batch_tokens &&
             c.chunk_tokens == capacity.chunk_tokens;
    });
    if (!known && capacity.micro_batches <= kMaxMicroBatches) capacities.push_back(capacity);
  }
  return capacities;
}

int64_t HostMemory(const Config& config) {
  if (config.memory.host_memory_gb) return BytesFromGB(*config.memory.host_memory_gb);
  return sysconf(_SC_PHYS_PAGES) * int64_t{sysconf(_SC_PAGESIZE)};
}

int64_t StoreBytes(const ModelGraph& model, const StateSpec& states, const Capacity& capacity) {
  return MakePersistentLayout(model, ResidentSchedule(model, capacity), states, 0)
      .bytes[kStoreSpace];
}

int64_t HostActivationBytes(const Config& config, int64_t store) {
  if (config.memory.host_activation_gb) return BytesFromGB(*config.memory.host_activation_gb);
  // For the system, this program and the driver's tables of pinned pages.
  constexpr double kOthers = 0.08;
  const auto total = static_cast<double>(HostMemory(config));
  return std::max<int64_t>(0, static_cast<int64_t>((1 - kOthers) * total) - store);
}

SearchInput MakeSearchInput(const Config& config, const ModelGraph& model, const StateSpec& states,
                            const CostModel& cost, const KernelTable* kernels, int64_t device_bytes,
                            int64_t host_activation_bytes) {
  SearchInput input;
  input.model = &model;
  input.cost = &cost;
  input.states = states;
  input.kernels = kernels;
  input.capacities = CapacitiesOf(config);
  input.device_bytes = device_bytes;
  input.host_activation_bytes = host_activation_bytes;
  input.seconds = config.memory.solve_seconds;
  if (config.memory.passes) input.passes = {*config.memory.passes};
  input.space.device_updates = config.optimizer.update != "host";
  input.space.host_updates = config.optimizer.update != "device";
  if (config.memory.schedule == "paper") {
    input.space.boundaries_only = true;
    input.space.residency = false;
    input.space.device_updates = false;
    input.passes = {1};
  }
  return input;
}

}  // namespace lazytrain
