#include "plan/sweeps.h"

#include <algorithm>

#include "core/contains.h"
#include "core/error.h"

namespace lazytrain {
namespace {

GradientFlow FindGradientFlow(const SegmentChain& chain, const std::vector<UnitSpec>& units) {
  GradientFlow flow;
  const int segments = static_cast<int>(chain.size());
  for (const Segment& segment : chain) {
    flow.value_needs_gradient.emplace_back(segment.graph->values.size(), false);
    flow.node_runs_backward.emplace_back(segment.graph->nodes.size(), false);
  }
  const auto trains = [&](int s, const OpNode& node) {
    return std::any_of(node.weights.begin(), node.weights.end(), [&](const WeightRef& w) {
      return units[chain[s].units[w.slot]].parameters[w.parameter].trainable;
    });
  };
  // Upwards: a value needs a gradient if anything below it is trained.
  for (int s = 0; s < segments; ++s) {
    for (const OpNode& node : chain[s].graph->nodes) {
      bool needs = trains(s, node);
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId source = Canonical(chain, s, node.inputs[i]);
        needs = needs || (node.op->differentiable(static_cast<int>(i)) &&
                          flow.value_needs_gradient[source.segment][source.value]);
      }
      for (const int output : node.outputs) {
        if (needs) flow.value_needs_gradient[s][output] = true;
      }
    }
  }
  // Downwards: a node runs backward if a gradient reaches it and somebody wants what it makes.
  std::set<ValueId> reached;
  for (int s = segments - 1; s >= 0; --s) {
    const std::vector<OpNode>& nodes = chain[s].graph->nodes;
    for (int n = static_cast<int>(nodes.size()) - 1; n >= 0; --n) {
      const OpNode& node = nodes[n];
      const bool begins = node.op->backward_computes_outputs();
      const bool wanted = std::any_of(node.outputs.begin(), node.outputs.end(), [&](int output) {
        return flow.value_needs_gradient[s][output] &&
               (begins || reached.contains(ValueId{s, output}));
      });
      if (!wanted) continue;
      flow.node_runs_backward[s][n] = true;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (!node.op->differentiable(static_cast<int>(i))) continue;
        reached.insert(Canonical(chain, s, node.inputs[i]));
      }
    }
  }
  return flow;
}

class TrainingPlanner {
 public:
  TrainingPlanner(const SegmentChain& chain, const std::vector<UnitSpec>& units,
                  const std::vector<SegmentPlan>& plans)
      : chain_(chain), plans_(plans) {
    sweeps_.flow = FindGradientFlow(chain, units);
  }

  Sweeps Plan() {
    for (int last = static_cast<int>(chain_.size()) - 1; last >= 0;) {
      const BackwardBlock block = BlockEndingAt(last);
      last = block.first - 1;
      sweeps_.kept.insert(block.kept_reads.begin(), block.kept_reads.end());
      sweeps_.blocks.push_back(block);
    }
    for (const Segment& segment : chain_) {
      sweeps_.forward.emplace_back(segment.graph->nodes.size(), false);
    }
    for (const ValueId& value : sweeps_.kept) DemandForward(value);
    return std::move(sweeps_);
  }

 private:
  BackwardBlock BlockEndingAt(int last) {
    BackwardBlock block{last, last, {}, {}};
    for (int segment = last; segment >= block.first; --segment) AddReads(block, segment);
    return block;
  }

  // Everything that the backward of `segment` reads.
  void AddReads(BackwardBlock& block, int segment) {
    const std::vector<OpNode>& nodes = chain_[segment].graph->nodes;
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (!sweeps_.flow.node_runs_backward[segment][n]) continue;
      const BackwardNeeds needs = nodes[n].op->backward_needs();
      for (const int i : needs.inputs) Require(block, segment, nodes[n].inputs[i]);
      for (const int i : needs.outputs) Require(block, segment, nodes[n].outputs[i]);
    }
  }

  void Require(BackwardBlock& block, int segment, int value) {
    if (chain_[segment].graph->values[value].origin == ValueOrigin::kBatch) return;
    const ValueId id = Canonical(chain_, segment, value);
    if (TierOf(chain_, plans_, id) != Tier::kRecompute) {
      block.kept_reads.insert(id);
      return;
    }
    block.first = std::min(block.first, id.segment);
    const SegmentGraph& graph = *chain_[id.segment].graph;
    for (const int writer : WritersOf(graph, id.value)) {
      if (!block.recomputed.insert({id.segment, writer}).second) continue;
      for (const int input : graph.nodes[writer].inputs) {
        if (input != id.value) Require(block, id.segment, input);
      }
    }
  }

  void DemandForward(const ValueId& value) {
    const SegmentGraph& graph = *chain_[value.segment].graph;
    for (const int writer : WritersOf(graph, value.value)) {
      if (sweeps_.forward[value.segment][writer]) continue;
      sweeps_.forward[value.segment][writer] = true;
      for (const int input : graph.nodes[writer].inputs) {
        if (graph.values[input].origin == ValueOrigin::kBatch || input == value.value) continue;
        DemandForward(Canonical(chain_, value.segment, input));
      }
    }
  }

  const SegmentChain& chain_;
  const std::vector<SegmentPlan>& plans_;
  Sweeps sweeps_;
};

}  // namespace

ValueId Canonical(const SegmentChain& chain, int segment, int value) {
  const ValueSource source = SourceOf(chain, segment, value);
  return {source.segment, source.value};
}

std::vector<int> WritersOf(const SegmentGraph& graph, int value) {
  std::vector<int> writers;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (Contains(graph.nodes[n].outputs, value)) writers.push_back(static_cast<int>(n));
  }
  return writers;
}

int GroupOf(const SegmentGraph& graph, int value) {
  for (size_t g = 0; g < graph.groups.size(); ++g) {
    if (Contains(graph.groups[g].values, value)) return static_cast<int>(g);
  }
  throw InternalError("graph {}: the value '{}' is in no group", graph.name,
                      graph.values[value].name);
}

Tier TierOf(const SegmentChain& chain, const std::vector<SegmentPlan>& plans,
            const ValueId& value) {
  const int group = GroupOf(*chain[value.segment].graph, value.value);
  return plans[value.segment].tiers[group];
}

Sweeps PlanTraining(const SegmentChain& chain, const std::vector<UnitSpec>& units,
                    const std::vector<SegmentPlan>& plans) {
  return TrainingPlanner(chain, units, plans).Plan();
}

std::vector<int> ResultValues(const SegmentGraph& graph) {
  std::vector<int> results;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].origin != ValueOrigin::kOp) continue;
    const bool read = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const OpNode& node) {
      return Contains(node.inputs, static_cast<int>(v));
    });
    if (!read) results.push_back(static_cast<int>(v));
  }
  return results;
}

std::vector<std::vector<bool>> PlanForward(const SegmentChain& chain) {
  std::vector<std::vector<bool>> runs;
  for (const Segment& segment : chain) runs.emplace_back(segment.graph->nodes.size(), false);
  std::set<ValueId> wanted;
  const int last = static_cast<int>(chain.size()) - 1;
  for (const int value : ResultValues(*chain[last].graph)) wanted.insert({last, value});
  for (int s = last; s >= 0; --s) {
    const SegmentGraph& graph = *chain[s].graph;
    for (int n = static_cast<int>(graph.nodes.size()) - 1; n >= 0; --n) {
      const OpNode& node = graph.nodes[n];
      runs[s][n] = std::any_of(node.outputs.begin(), node.outputs.end(), [&](int output) {
        return wanted.contains(ValueId{s, output});
      });
      if (!runs[s][n]) continue;
      for (const int input : node.inputs) {
        if (graph.values[input].origin == ValueOrigin::kBatch) continue;
        wanted.insert(Canonical(chain, s, input));
      }
    }
  }
  return runs;
}

}  // namespace lazytrain
