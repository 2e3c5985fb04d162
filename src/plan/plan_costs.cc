#include "plan/plan_costs.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace lazytrain {
namespace {

// Values that backward reads itself, or reads once something is recomputed: everything that an op
// with a backward, or one below it, takes in.
std::vector<std::set<int>> ReadableValues(const SegmentChain& chain, const GradientFlow& flow) {
  std::vector<std::set<int>> readable(chain.size());
  for (size_t s = 0; s < chain.size(); ++s) {
    const SegmentGraph& graph = *chain[s].graph;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const OpNode& node = graph.nodes[n];
      const auto add = [&](int value) {
        if (graph.values[value].origin == ValueOrigin::kBatch) return;
        const ValueId id = Canonical(chain, static_cast<int>(s), value);
        readable[id.segment].insert(id.value);
      };
      if (!node.op->backward_computes_outputs()) {
        for (const int input : node.inputs) add(input);
      }
      if (!flow.node_runs_backward[s][n]) continue;
      const BackwardNeeds needs = node.op->backward_needs();
      for (const int i : needs.inputs) add(node.inputs[i]);
      for (const int i : needs.outputs) add(node.outputs[i]);
    }
  }
  return readable;
}

// The most bytes alive at once while the nodes run forward, and everything lives from its first
// write to its last read in the segment (what other segments read: to the end).
int64_t ForwardBytes(const SegmentGraph& graph, const RowCounts& rows, const KernelTable* kernels) {
  std::vector<int> last(graph.values.size(), static_cast<int>(graph.nodes.size()));
  for (size_t v = 0; v < graph.values.size(); ++v) {
    int read = -1;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const std::vector<int>& inputs = graph.nodes[n].inputs;
      if (std::count(inputs.begin(), inputs.end(), static_cast<int>(v)) > 0) {
        read = static_cast<int>(n);
      }
    }
    if (read >= 0) last[v] = read;
  }
  std::vector<bool> alive(graph.values.size(), false);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    alive[v] = graph.values[v].origin == ValueOrigin::kLiveIn;
  }
  int64_t most = 0;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const OpNode& node = graph.nodes[n];
    for (const int output : node.outputs) alive[output] = true;
    int64_t bytes = WorkspaceBytes(kernels, *node.op, Direction::kForward, rows);
    for (size_t v = 0; v < alive.size(); ++v) {
      if (alive[v]) bytes += graph.values[v].Bytes(rows);
      if (last[v] == static_cast<int>(n)) alive[v] = false;
    }
    most = std::max(most, bytes);
  }
  return most;
}

// The most bytes of gradients and workspace at once while the nodes run backward.
int64_t GradientBytes(const SegmentGraph& graph, const std::vector<bool>& runs,
                      const RowCounts& rows, const KernelTable* kernels) {
  std::vector<int> first_write(graph.values.size(), -1);  // of the value: its gradient's end
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    for (const int output : graph.nodes[n].outputs) first_write[output] = static_cast<int>(n);
  }
  int64_t most = 0;
  std::set<int> alive;
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    if (!runs[n]) continue;
    const OpNode& node = graph.nodes[n];
    const int residual = node.op->residual_input();
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      // A residual's gradient is its sum's.
      if (static_cast<int>(i) == residual || !node.op->differentiable(static_cast<int>(i)))
        continue;
      alive.insert(node.inputs[i]);
    }
    alive.insert(node.outputs[0]);
    int64_t bytes = WorkspaceBytes(kernels, *node.op, Direction::kBackward, rows);
    for (const int value : alive) bytes += graph.values[value].Bytes(rows);
    most = std::max(most, bytes);
    std::erase_if(alive, [&](int value) { return first_write[value] == static_cast<int>(n); });
  }
  return most;
}

SegmentCosts CostsOf(const SegmentChain& chain, int s, const GradientFlow& flow,
                     const std::set<int>& readable, const RowCounts& rows, const CostModel& cost,
                     const std::vector<UnitSpec>& units, const KernelTable* kernels) {
  const SegmentGraph& graph = *chain[s].graph;
  SegmentCosts costs;
  std::set<int> read;
  std::set<int> trained;
  costs.idle = std::all_of(graph.values.begin(), graph.values.end(), [&](const ValueSpec& value) {
    return value.origin != ValueOrigin::kOp || value.Bytes(rows) == 0;
  });
  const auto seconds = [&](const OpNode& node, Direction direction) {
    return costs.idle ? 0.0 : cost.OpSeconds(*node.op, direction, rows);
  };
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const OpNode& node = graph.nodes[n];
    const bool backward = flow.node_runs_backward[s][n];
    costs.nodes.push_back(
        {seconds(node, Direction::kForward), backward ? seconds(node, Direction::kBackward) : 0.0});
    for (const WeightRef& ref : node.weights) {
      const int unit = chain[s].units[ref.slot];
      read.insert(unit);
      if (backward && units[unit].parameters[ref.parameter].trainable) trained.insert(unit);
    }
  }
  costs.units.assign(read.begin(), read.end());
  costs.gradient_units.assign(trained.begin(), trained.end());
  for (const ValueSpec& value : graph.values) costs.value_bytes.push_back(value.Bytes(rows));
  for (const ValueGroup& group : graph.groups) {
    GroupCosts of_group;
    for (const int value : group.values) {
      if (!readable.contains(value)) continue;
      of_group.bytes += costs.value_bytes[value];
      of_group.wanted = true;
    }
    costs.groups.push_back(of_group);
  }
  costs.forward_bytes = ForwardBytes(graph, rows, kernels);
  costs.gradient_bytes = GradientBytes(graph, flow.node_runs_backward[s], rows, kernels);
  return costs;
}

UnitCosts CostsOf(const UnitSpec& unit, const StateBytes& states) {
  UnitCosts costs;
  costs.weight_bytes = unit.bytes;
  costs.elements = unit.elements;
  bool has_low = false;
  for (const ParameterSpec& parameter : unit.parameters) {
    if (!parameter.trainable) continue;
    costs.parameters += parameter.elements();
    has_low = has_low || parameter.dtype != DType::kF32;
  }
  if (costs.parameters == 0) return costs;
  const auto elements = static_cast<double>(unit.elements);
  costs.state_bytes = static_cast<int64_t>(elements * (states.moments + (has_low ? 2 : 0)));
  costs.gradient_bytes = static_cast<int64_t>(elements * states.gradient);
  return costs;
}

// What tells units apart for a plan: the segment that uses them first, and their shape.
using UnitKind = std::tuple<int, int64_t, int64_t, int64_t>;

void NumberAlike(PlanCosts& costs) {
  constexpr int kIdle = -1;
  std::vector<int> used_by(costs.units.size(), kIdle);
  for (size_t s = costs.segments.size(); s-- > 0;) {
    if (costs.segments[s].idle) continue;
    for (const int unit : costs.segments[s].units) used_by[unit] = static_cast<int>(s);
  }
  std::map<UnitKind, int> numbers;
  for (size_t u = 0; u < costs.units.size(); ++u) {
    UnitCosts& unit = costs.units[u];
    UnitKind kind{used_by[u], unit.weight_bytes, unit.elements, unit.parameters};
    if (used_by[u] == kIdle) kind = {kIdle, 0, 0, unit.parameters > 0 ? 1 : 0};
    unit.alike = numbers.emplace(kind, static_cast<int>(numbers.size())).first->second;
  }
}

}  // namespace

double SegmentCosts::Backward() const {
  double seconds = 0;
  for (const NodeCosts& node : nodes) seconds += node.backward;
  return seconds;
}

PlanCosts MakePlanCosts(const ModelGraph& model, const Capacity& capacity, const CostModel& cost,
                        const StateBytes& states, const KernelTable* kernels) {
  PlanCosts costs;
  costs.update_bytes = states.Update();
  costs.flow =
      PlanTraining(model.loss, model.units, ResidentSchedule(model, capacity).segments).flow;
  const std::vector<std::set<int>> readable = ReadableValues(model.loss, costs.flow);
  const RowCounts rows = capacity.MicroBatchRows();
  for (size_t s = 0; s < model.loss.size(); ++s) {
    costs.segments.push_back(CostsOf(model.loss, static_cast<int>(s), costs.flow, readable[s], rows,
                                     cost, model.units, kernels));
  }
  for (const UnitSpec& unit : model.units) costs.units.push_back(CostsOf(unit, states));
  for (const SegmentCosts& segment : costs.segments) {
    for (const int unit : segment.units) ++costs.units[unit].uses;
  }
  NumberAlike(costs);
  return costs;
}

}  // namespace lazytrain
