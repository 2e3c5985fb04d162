// What the planner knows about a step: time, bytes and dependencies of every value, node and unit,
// as plain numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "model/graph.h"
#include "ops/kernel.h"
#include "plan/capacity.h"
#include "plan/cost_model.h"
#include "plan/sweeps.h"

namespace lazytrain {

// Of one full micro-batch.
struct NodeCosts {
  double forward = 0;   // seconds
  double backward = 0;  // 0: it has none
};

struct GroupCosts {
  int64_t bytes = 0;    // of the values that backward may read, of a full micro-batch
  bool wanted = false;  // whether it has any such value
};

struct SegmentCosts {
  std::vector<NodeCosts> nodes;
  std::vector<GroupCosts> groups;
  std::vector<int64_t> value_bytes;
  std::vector<int> units;           // whose weights the segment reads
  std::vector<int> gradient_units;  // whose gradients it makes
  int64_t forward_bytes = 0;        // the most alive at once in its forward, kept values included
  int64_t gradient_bytes = 0;  // the most gradients of values and workspace at once in its backward
  bool idle = false;           // no rows in this capacity
  double Backward() const;
};

// Bytes and parameters of one unit.
struct UnitCosts {
  int64_t weight_bytes = 0;
  int64_t elements = 0;        // with padding
  int64_t parameters = 0;      // trained ones
  int64_t state_bytes = 0;     // master and moments
  int64_t gradient_bytes = 0;  // as stored
  int uses = 0;
  // Units with the same number are planned alike: experts of one layer, parts of the model that
  // have nothing to do in this capacity.
  int alike = 0;
};

// How gradients and moments of a parameter are stored, in bytes.
struct StateBytes {
  double gradient = 2;
  double moments = 8;  // both

  // Of host memory, that an update moves: the gradient is read, weight and master (together four
  // bytes) and moments are read and written.
  double Update() const { return gradient + 2 * (4 + moments); }
};

struct PlanCosts {
  std::vector<SegmentCosts> segments;
  std::vector<UnitCosts> units;
  GradientFlow flow;
  double update_bytes = 0;  // of host memory, by parameter
};

// `kernels`: whose workspaces count; null: those of Op::WorkspaceBytes.
PlanCosts MakePlanCosts(const ModelGraph& model, const Capacity& capacity, const CostModel& cost,
                        const StateBytes& states, const KernelTable* kernels = nullptr);

}  // namespace lazytrain
