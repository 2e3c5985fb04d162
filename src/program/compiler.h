// From a schedule to step programs. All programs of a run share one arena: the persistent buffers
// stand first and keep their place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/graph.h"
#include "ops/kernel.h"
#include "plan/capacity.h"
#include "plan/cost_model.h"
#include "plan/schedule.h"
#include "program/persistent.h"
#include "program/program.h"
#include "program/transfer_timing.h"

namespace lazytrain {

// Everything programs of one run are compiled from; must outlive them (instructions point to ops).
struct CompileInput {
  const ModelGraph* model = nullptr;
  const Schedule* schedule = nullptr;
  const PersistentLayout* persistent = nullptr;
  StateSpec states;
  // Whose workspaces the program has room for; null: those of Op::WorkspaceBytes.
  const KernelTable* kernels = nullptr;
};

// What the timing of transfers is chosen for: the fastest by the simulator that takes no more
// device memory (all programs' persistent buffers included).
struct TransferTuning {
  const CostModel* cost = nullptr;
  int64_t device_bytes = 0;
};

// One optimizer step: applies the update that is pending, then computes losses and gradients.
// Without tuning each transfer is issued one stage (weights) or one slot (values) ahead. If nothing
// fits the tuning's memory, the program is the smallest there is.
Program CompileTraining(const CompileInput& input, const Capacity& capacity,
                        const std::optional<TransferTuning>& tuning = std::nullopt);

// Losses only (the loss chain's results), or logits of the selected rows; no update, no gradients.
Program CompileEvaluation(const CompileInput& input, const Capacity& capacity);
Program CompileLogits(const CompileInput& input, const Capacity& capacity);

// Logits of rows that continue a document of capacity.context tokens at most. Programs of different
// capacities share the states: one for many rows at once (prefill), one for a single row (decode).
Program CompileGeneration(const CompileInput& input, const Capacity& capacity,
                          const std::string& name);

// The pending update alone. `Load` fills what the schedule keeps on the device, at the start of a
// run; `Flush` brings to the host what only the device has up to date.
Program CompileUpdate(const CompileInput& input);
Program CompileLoad(const CompileInput& input);
Program CompileFlush(const CompileInput& input);

}  // namespace lazytrain
