// From a schedule to step programs. All programs of a run share one arena: the persistent buffers
// stand first and keep their place.
#pragma once

#include "model/graph.h"
#include "ops/kernel.h"
#include "plan/capacity.h"
#include "plan/schedule.h"
#include "program/persistent.h"
#include "program/program.h"

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

// One optimizer step: applies the update that is pending, then computes losses and gradients.
Program CompileTraining(const CompileInput& input, const Capacity& capacity);

// Losses only (the loss chain's results), or logits of the selected rows; no update, no gradients.
Program CompileEvaluation(const CompileInput& input, const Capacity& capacity);
Program CompileLogits(const CompileInput& input, const Capacity& capacity);

// The pending update alone. `Load` fills what the schedule keeps on the device, at the start of a
// run; `Flush` brings to the host what only the device has up to date.
Program CompileUpdate(const CompileInput& input);
Program CompileLoad(const CompileInput& input);
Program CompileFlush(const CompileInput& input);

}  // namespace lazytrain
