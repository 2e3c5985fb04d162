#include "plan/schedule_mip.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/error.h"

namespace lazytrain {
namespace {

// Forward of the last segments may be left to backward; of those before it runs in any schedule
// that keeps anything.
constexpr size_t kTailSegments = 3;

}  // namespace

bool PlanSpace::MayKeep(const SegmentChain& chain, size_t segment, size_t group) const {
  if (boundaries_only && static_cast<int>(group) != OutputGroup(chain, segment)) return false;
  const std::string& name = chain[segment].graph->groups[group].name;
  return groups.empty() || std::find(groups.begin(), groups.end(), name) != groups.end();
}

ScheduleMip::ScheduleMip(const PlanProblem& problem, std::vector<int64_t> passes)
    : problem_(problem),
      chain_(problem.model->loss),
      costs_(*problem.costs),
      passes_(std::move(passes)) {
  AddChoices();
  AddUnitChoices();
  AddRecomputation();
  AddForwardRuns();
  AddKeptBytes();
  AddBlocks();
  AddHostMemory();
  persistent_ = PersistentBytes();
  exposed_start_ = program_.AddColumn(0, kInfinity);
  Queues queues;
  for (const PassKind& kind : PassKinds()) AddPass(kind, queues);
  program_.Minimise(total_seconds_);
}

void ScheduleMip::AddChoices() {
  const PlanSpace& space = problem_.space;
  for (size_t s = 0; s < chain_.size(); ++s) {
    groups_.emplace_back(chain_[s].graph->groups.size());
    for (size_t g = 0; g < groups_[s].size(); ++g) {
      if (!costs_.segments[s].groups[g].wanted) continue;
      if (!space.MayKeep(chain_, s, g)) continue;
      GroupChoice& choice = groups_[s][g];
      LinearSum tiers;
      choice.device = program_.AddBinary();
      tiers.Add(choice.device);
      if (problem_.budget.host_activation_bytes > 0) {
        choice.host = program_.AddBinary();
        tiers.Add(choice.host);
      }
      if (space.nvme && problem_.budget.nvme_bytes > 0) {
        choice.nvme = program_.AddBinary();
        tiers.Add(choice.nvme);
      }
      if (tiers.terms.size() > 1) program_.AddAtMost(tiers, 1);
    }
  }
}

void ScheduleMip::AddUnitChoices() {
  const PlanSpace& space = problem_.space;
  for (const UnitCosts& unit : costs_.units) {
    UnitChoice& choice = units_.emplace_back();
    if (!space.residency) continue;
    choice.weights = program_.AddBinary();
    if (unit.parameters == 0) continue;
    if (passes_.size() > 1) choice.accumulator = program_.AddBinary();
    if (!space.device_updates) continue;
    choice.device_update = program_.AddColumn(space.host_updates ? 0 : 1, 1, 0, true);
    choice.states = program_.AddBinary();
    // States on the device are updated there.
    LinearSum order;
    program_.AddAtMost(order.Add(choice.states).Add(choice.device_update, -1), 0);
  }
}

LinearSum ScheduleMip::Kept(const ValueId& id) const {
  const int group = GroupOf(*chain_[id.segment].graph, id.value);
  const GroupChoice& choice = groups_[id.segment][group];
  LinearSum kept;
  for (const int column : {choice.device, choice.host, choice.nvme}) {
    if (column != kNone) kept.Add(column);
  }
  return kept;
}

// Whoever writes the value runs again unless it is kept, as far as it is demanded (0 to 1).
void ScheduleMip::RequireValue(const ValueId& id, const LinearSum& demand) {
  for (const int writer : WritersOf(*chain_[id.segment].graph, id.value)) {
    LinearSum slack;
    slack.Add(recomputed_[id.segment][writer]);
    slack += Kept(id);
    slack += demand * -1.0;
    program_.AddAtLeast(slack, 0);
  }
}

void ScheduleMip::AddRecomputation() {
  for (const Segment& segment : chain_) {
    std::vector<int>& columns = recomputed_.emplace_back();
    for (const OpNode& node : segment.graph->nodes) {
      const bool never = node.op->backward_computes_outputs();
      columns.push_back(program_.AddColumn(0, never ? 0 : 1));
    }
  }
  for (size_t s = 0; s < chain_.size(); ++s) {
    const SegmentGraph& graph = *chain_[s].graph;
    const auto require = [&](int value, const LinearSum& demand) {
      if (graph.values[value].origin == ValueOrigin::kBatch) return;
      RequireValue(Canonical(chain_, static_cast<int>(s), value), demand);
    };
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      const OpNode& node = graph.nodes[n];
      if (costs_.flow.node_runs_backward[s][n]) {
        const BackwardNeeds needs = node.op->backward_needs();
        for (const int i : needs.inputs) require(node.inputs[i], 1.0);
        for (const int i : needs.outputs) require(node.outputs[i], 1.0);
      }
      if (node.op->backward_computes_outputs()) continue;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.op->in_place() && i == 0) continue;
        LinearSum demand;
        require(node.inputs[i], demand.Add(recomputed_[s][n]));
      }
    }
  }
}

// A node runs in the forward sweep if something kept comes after it.
void ScheduleMip::AddForwardRuns() {
  for (size_t s = 0; s < chain_.size(); ++s) {
    const std::vector<OpNode>& nodes = chain_[s].graph->nodes;
    std::vector<LinearSum>& runs = runs_.emplace_back();
    for (const OpNode& node : nodes) {
      const bool always = s + kTailSegments < chain_.size();
      LinearSum run(always ? 1.0 : 0.0);
      if (!always && !node.op->backward_computes_outputs()) run.Add(program_.AddColumn(0, 1));
      runs.push_back(run);
    }
  }
  const auto demand = [&](const ValueId& id, const LinearSum& by) {
    for (const int writer : WritersOf(*chain_[id.segment].graph, id.value)) {
      const LinearSum& run = runs_[id.segment][writer];
      if (run.terms.empty()) continue;
      LinearSum slack = run;
      slack += by * -1.0;
      program_.AddAtLeast(slack, 0);
    }
  };
  for (size_t s = chain_.size() - std::min(chain_.size(), kTailSegments); s < chain_.size(); ++s) {
    const SegmentGraph& graph = *chain_[s].graph;
    for (size_t v = 0; v < graph.values.size(); ++v) {
      if (graph.values[v].origin != ValueOrigin::kOp) continue;
      const ValueId id{static_cast<int>(s), static_cast<int>(v)};
      demand(id, Kept(id));
    }
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      for (const int input : graph.nodes[n].inputs) {
        if (graph.values[input].origin == ValueOrigin::kBatch) continue;
        demand(Canonical(chain_, static_cast<int>(s), input), runs_[s][n]);
      }
    }
  }
}

void ScheduleMip::AddKeptBytes() {
  for (size_t s = 0; s < chain_.size(); ++s) {
    const int kept = program_.AddColumn(0, kInfinity);
    LinearSum balance;
    balance.Add(kept, -1);
    if (s > 0) balance.Add(kept_bytes_.back());
    for (size_t g = 0; g < groups_[s].size(); ++g) {
      if (groups_[s][g].device == kNone) continue;
      balance.Add(groups_[s][g].device, GB(costs_.segments[s].groups[g].bytes));
    }
    program_.AddRow(0, balance, 0);
    kept_bytes_.push_back(kept);
  }
}

double ScheduleMip::BoundaryBytes(int segment) const {
  const int group = OutputGroup(chain_, static_cast<size_t>(segment));
  if (group < 0) return 0;
  double bytes = 0;
  for (const int value : chain_[segment].graph->groups[group].values) {
    bytes += GB(costs_.segments[segment].value_bytes[value]);
  }
  return bytes;
}

LinearSum ScheduleMip::OnDevice(int segment) const {
  LinearSum sum;
  const int group = OutputGroup(chain_, static_cast<size_t>(segment));
  if (group >= 0 && groups_[segment][group].device != kNone) {
    sum.Add(groups_[segment][group].device);
  }
  return sum;
}

LinearSum ScheduleMip::Streamed(int unit) const {
  LinearSum sum(1.0);
  if (units_[unit].weights != kNone) sum.Add(units_[unit].weights, -1);
  return sum;
}

LinearSum ScheduleMip::HostUpdated(int unit) const {
  if (costs_.units[unit].parameters == 0) return {};
  LinearSum sum(1.0);
  if (units_[unit].device_update != kNone) sum.Add(units_[unit].device_update, -1);
  return sum;
}

// Where a boundary is not kept, the segments on both sides do their backward together: what was
// recomputed below, and the lower units, are there at the same time.
void ScheduleMip::AddBlocks() {
  for (size_t s = 0; s < chain_.size(); ++s) {
    block_values_.push_back(program_.AddColumn(0, kInfinity));
    block_units_.push_back(program_.AddColumn(0, kInfinity));
    if (s == 0) continue;
    const int group = OutputGroup(chain_, s - 1);
    if (group < 0 || !costs_.segments[s - 1].groups[group].wanted) continue;
    const SegmentGraph& below = *chain_[s - 1].graph;
    LinearSum kept;
    double all_values = 0;
    LinearSum values;
    for (size_t n = 0; n < below.nodes.size(); ++n) {
      for (const int output : below.nodes[n].outputs) {
        const OpNode& node = below.nodes[n];
        if (node.op->in_place() && output == node.inputs[0]) continue;
        const double bytes = GB(costs_.segments[s - 1].value_bytes[output]);
        all_values += bytes;
        values.Add(recomputed_[s - 1][n], bytes);
      }
    }
    LinearSum units;
    double all_units = 0;
    for (const int unit : costs_.segments[s - 1].units) {
      const UnitCosts& of_unit = costs_.units[unit];
      const double bytes = GB(of_unit.weight_bytes + of_unit.elements * 4);
      all_units += bytes;
      units += Streamed(unit) * GB(of_unit.weight_bytes);
      units += bytes - GB(of_unit.weight_bytes);
    }
    kept = Kept({static_cast<int>(s) - 1, chain_[s - 1].graph->groups[group].values[0]});
    const auto depth = static_cast<double>(s);
    values.Add(block_values_[s - 1]).Add(block_values_[s], -1);
    values += kept * (-depth * all_values);
    program_.AddAtMost(values, 0);
    units.Add(block_units_[s - 1]).Add(block_units_[s], -1);
    units += kept * (-depth * all_units);
    program_.AddAtMost(units, 0);
  }
}

void ScheduleMip::AddHostMemory() {
  const auto most = static_cast<double>(*std::max_element(passes_.begin(), passes_.end()));
  LinearSum host, nvme;
  for (size_t s = 0; s < chain_.size(); ++s) {
    for (size_t g = 0; g < groups_[s].size(); ++g) {
      const double bytes = most * GB(costs_.segments[s].groups[g].bytes);
      if (groups_[s][g].host != kNone) host.Add(groups_[s][g].host, bytes);
      if (groups_[s][g].nvme != kNone) nvme.Add(groups_[s][g].nvme, bytes);
    }
  }
  if (!host.terms.empty()) program_.AddAtMost(host, problem_.budget.host_activation_bytes / kGB);
  if (!nvme.terms.empty()) program_.AddAtMost(nvme, problem_.budget.nvme_bytes / kGB);
}

LinearSum ScheduleMip::PersistentBytes() const {
  LinearSum bytes;
  for (size_t u = 0; u < units_.size(); ++u) {
    const UnitCosts& unit = costs_.units[u];
    const UnitChoice& choice = units_[u];
    if (choice.weights != kNone) bytes.Add(choice.weights, GB(unit.weight_bytes));
    if (choice.accumulator != kNone) {
      bytes.Add(choice.accumulator, GB(unit.elements * 4) * unit.uses);
    }
    if (choice.device_update != kNone) bytes.Add(choice.device_update, GB(unit.gradient_bytes));
    if (choice.states != kNone) bytes.Add(choice.states, GB(unit.state_bytes));
  }
  return bytes;
}

Schedule ScheduleMip::ScheduleOf(const LinearSolution& solution) const {
  const auto taken = [&](int column) { return column != kNone && solution.values[column] >= 0.5; };
  Schedule schedule;
  schedule.name = "solve";
  schedule.micro_batch_tokens = problem_.capacity.micro_batch_tokens;
  schedule.passes = passes_;
  for (const UnitChoice& choice : units_) {
    UnitPlan unit;
    unit.weights_resident = taken(choice.weights);
    unit.accumulator_resident = taken(choice.accumulator);
    if (taken(choice.device_update)) unit.update = UpdatePlace::kDevice;
    if (taken(choice.states)) unit.states = Tier::kDevice;
    schedule.units.push_back(unit);
  }
  for (const std::vector<GroupChoice>& choices : groups_) {
    SegmentPlan& plan = schedule.segments.emplace_back();
    for (const GroupChoice& choice : choices) {
      Tier tier = Tier::kRecompute;
      if (taken(choice.device)) tier = Tier::kDevice;
      if (taken(choice.host)) tier = Tier::kHost;
      if (taken(choice.nvme)) tier = Tier::kNvme;
      plan.tiers.push_back(tier);
    }
  }
  return schedule;
}

StepEstimate ScheduleMip::EstimateOf(const LinearSolution& solution) const {
  StepEstimate estimate;
  estimate.seconds = solution.objective;
  estimate.recompute = solution.Value(recompute_seconds_);
  estimate.exposed = solution.Value(exposed_seconds_);
  estimate.exposed_update = solution.values[exposed_start_];
  estimate.h2d_bytes = solution.Value(h2d_gb_) * kGB;
  estimate.d2h_bytes = solution.Value(d2h_gb_) * kGB;
  return estimate;
}

std::vector<double> ScheduleMip::ColumnsOf(const Schedule& schedule) const {
  std::vector<double> columns(static_cast<size_t>(program_.columns()), 0.0);
  const auto set = [&](int column, bool value) {
    if (column != kNone) columns[column] = value ? 1.0 : 0.0;
  };
  for (size_t u = 0; u < units_.size(); ++u) {
    const UnitPlan& unit = schedule.units[u];
    set(units_[u].weights, unit.weights_resident);
    set(units_[u].accumulator, unit.accumulator_resident);
    set(units_[u].device_update, unit.update == UpdatePlace::kDevice);
    set(units_[u].states, unit.states == Tier::kDevice);
  }
  for (size_t s = 0; s < groups_.size(); ++s) {
    for (size_t g = 0; g < groups_[s].size(); ++g) {
      const Tier tier = schedule.segments[s].tiers[g];
      set(groups_[s][g].device, tier == Tier::kDevice);
      set(groups_[s][g].host, tier == Tier::kHost);
      set(groups_[s][g].nvme, tier == Tier::kNvme);
    }
  }
  return columns;
}

void ScheduleMip::Fix(const Schedule& schedule) {
  const std::vector<double> columns = ColumnsOf(schedule);
  const auto fix = [&](int column) {
    if (column != kNone) program_.SetBounds(column, columns[column], columns[column]);
  };
  for (const UnitChoice& choice : units_) {
    for (const int c : {choice.weights, choice.accumulator, choice.device_update, choice.states}) {
      fix(c);
    }
  }
  for (const std::vector<GroupChoice>& choices : groups_) {
    for (const GroupChoice& choice : choices) {
      for (const int c : {choice.device, choice.host, choice.nvme}) fix(c);
    }
  }
}

}  // namespace lazytrain
