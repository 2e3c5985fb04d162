// What runs in the forward sweep of a step and what is left to backward, given what is kept.
// Follows from the graph alone: a value that backward needs and nobody kept is recomputed from the
// nearest values that were.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "model/graph.h"
#include "plan/schedule.h"

namespace lazytrain {

// Positions in a chain.
struct NodeId {
  int segment = 0;
  int node = 0;
  auto operator<=>(const NodeId&) const = default;
};
struct ValueId {
  int segment = 0;
  int value = 0;
  auto operator<=>(const ValueId&) const = default;
};

// Which gradients exist. Frozen weights below the lowest trained one need none.
struct GradientFlow {
  std::vector<std::vector<bool>> value_needs_gradient;  // [segment][value], values of origin kOp
  std::vector<std::vector<bool>> node_runs_backward;    // [segment][node]
};

// Segments whose backward is done together, micro-batch by micro-batch: where a value between two
// segments is not kept, recomputing it passes through the lower one, whose own backward then uses
// what was recomputed.
struct BackwardBlock {
  int first = 0;  // segments, both ends included
  int last = 0;
  std::set<ValueId> kept_reads;  // kept values that the block reads
  std::set<NodeId> recomputed;   // nodes that run forward again
};

struct Sweeps {
  GradientFlow flow;
  std::vector<std::vector<bool>> forward;  // [segment][node]: runs in the forward sweep
  std::set<ValueId> kept;                  // values that wait for backward, on whatever tier
  std::vector<BackwardBlock> blocks;       // in the order of backward: the last segments first
};

// Canonical name of a segment's value: where it is computed.
ValueId Canonical(const SegmentChain& chain, int segment, int value);

// The nodes of a segment that write `value`, in order.
std::vector<int> WritersOf(const SegmentGraph& graph, int value);

// The group of a segment's value of origin kOp.
int GroupOf(const SegmentGraph& graph, int value);

// The tier of a value under a schedule.
Tier TierOf(const SegmentChain& chain, const std::vector<SegmentPlan>& plans, const ValueId& value);

// Training.
Sweeps PlanTraining(const SegmentChain& chain, const std::vector<UnitSpec>& units,
                    const std::vector<SegmentPlan>& plans);

// Forward only: the nodes that the last segment's outputs need.
std::vector<std::vector<bool>> PlanForward(const SegmentChain& chain);

// Values of the last segment that no node reads: what the chain is for.
std::vector<int> ResultValues(const SegmentGraph& graph);

}  // namespace lazytrain
