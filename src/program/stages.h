// The order of a program's work: stages, in which the same units are on the device, and slots, one
// micro-batch of a stage. Transfers are issued at the start of slots.
#pragma once

#include <vector>

#include "model/graph.h"
#include "plan/schedule.h"
#include "plan/sweeps.h"
#include "program/persistent.h"

namespace lazytrain {

// A stretch of a program in which the same units are on the device: one segment forward, or one
// block backward, for all micro-batches of a pass.
struct Stage {
  int pass = 0;
  bool backward = false;
  int first_segment = 0;
  int last_segment = 0;
  int block = -1;                  // backward: position among the sweeps' blocks
  std::vector<int> units;          // whose weights are read
  std::vector<UnitUse> gradients;  // uses whose gradients are made
  int first_slot = 0;
  int slots = 0;
};

struct Slot {
  int stage = 0;
  int micro_batch = 0;
};

struct StagePlan {
  std::vector<Stage> stages;
  std::vector<Slot> slots;
};

// The stages of a training step.
StagePlan TrainingStages(const ModelGraph& model, const Sweeps& sweeps,
                         const std::vector<int64_t>& passes);

// Those of a program that only runs the chain forward; `runs` as in PlanForward.
StagePlan ForwardStages(const SegmentChain& chain, const std::vector<std::vector<bool>>& runs,
                        int64_t micro_batches);

}  // namespace lazytrain
