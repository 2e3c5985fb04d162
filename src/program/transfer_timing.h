// How far ahead of their use transfers are issued, and how long what is sent off keeps its memory:
// the trade between device memory and stalls, settled from the times the simulator works with.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/cost_model.h"
#include "program/program.h"
#include "program/stages.h"

namespace lazytrain {

// In slots. What is wanted at a slot can at the latest be issued at its start.
struct TransferTiming {
  std::vector<int> weights;    // for each stage: when its units are fetched
  std::vector<int> gradients;  // for each stage: when the gradients it adds to are fetched
  std::vector<int> reloads;    // for each slot: when what it reads from the host is fetched
  std::vector<int> holds;      // for each slot: the slot at whose end what it sent off is free
};

// Weights one stage ahead, values one slot ahead, memory free one slot after.
TransferTiming OneAhead(const StagePlan& plan);

// Just in time, as far as memory allows: each transfer as late as lets every later one, too, end
// before its use, given that lanes do nothing else and compute never waits; each takes `slack`
// times as long as predicted. Later than that where the device's memory would otherwise be more
// than `device_bytes` (the arena's gaps not counted). `program` is one compiled from the same
// stages, whatever its timing; times are those of full micro-batches.
TransferTiming JustInTime(const StagePlan& plan, const Program& program, const CostModel& cost,
                          double slack, int64_t device_bytes);

}  // namespace lazytrain
