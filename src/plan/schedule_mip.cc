#include "plan/schedule_mip.h"

#include <algorithm>
#include <map>
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
  persistent_ = program_.AddColumn(0, kInfinity);
  Derive(persistent_, PersistentBytes());
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
      // What takes nothing (images, in a step without) need not be asked for.
      if (!costs_.segments[s].groups[g].wanted || costs_.segments[s].groups[g].bytes == 0) continue;
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
  std::map<int, UnitChoice> shared;
  for (size_t u = 0; u < costs_.units.size(); ++u) {
    const UnitCosts& unit = costs_.units[u];
    UnitChoice& choice = units_.emplace_back();
    if (!space.residency) continue;
    const auto known = shared.find(unit.alike);
    if (known != shared.end()) {
      choice = known->second;
      continue;
    }
    choice.weights = program_.AddBinary();
    if (unit.parameters > 0) AddUpdateChoices(choice);
    shared[unit.alike] = choice;
  }
}

void ScheduleMip::AddUpdateChoices(UnitChoice& choice) {
  const PlanSpace& space = problem_.space;
  if (passes_.size() > 1) choice.accumulator = program_.AddBinary();
  if (!space.device_updates) return;
  choice.device_update = program_.AddColumn(space.host_updates ? 0 : 1, 1, 0, true);
  choice.states = program_.AddBinary();
  choice.fetched = program_.AddColumn(0, 1);
  choice.weights_back = program_.AddColumn(0, 1);
  // States on the device are updated there.
  program_.AddAtMost(LinearSum().Add(choice.states).Add(choice.device_update, -1), 0);
  for (const int column : {choice.weights, choice.device_update}) {
    Derive(choice.fetched, LinearSum(1.0).Add(column, -1));
  }
  Derive(choice.weights_back, LinearSum().Add(choice.device_update).Add(choice.weights, -1));
}

// The column is at least `lower`; where the objective or a limit asks for the least, no more.
void ScheduleMip::Derive(int column, const LinearSum& lower) {
  derived_.push_back({column, lower});
  LinearSum row = lower * -1.0;
  program_.AddAtLeast(row.Add(column), 0);
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
    LinearSum lower = demand;
    Derive(recomputed_[id.segment][writer], lower += Kept(id) * -1.0);
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
  const auto require = [&](size_t s, int value, const LinearSum& demand) {
    if (chain_[s].graph->values[value].origin == ValueOrigin::kBatch) return;
    RequireValue(Canonical(chain_, static_cast<int>(s), value), demand);
  };
  for (size_t s = 0; s < chain_.size(); ++s) {
    const std::vector<OpNode>& nodes = chain_[s].graph->nodes;
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (!costs_.flow.node_runs_backward[s][n]) continue;
      const BackwardNeeds needs = nodes[n].op->backward_needs();
      for (const int i : needs.inputs) require(s, nodes[n].inputs[i], 1.0);
      for (const int i : needs.outputs) require(s, nodes[n].outputs[i], 1.0);
    }
  }
  // From the last node down, so that whoever demands is derived before what it demands.
  for (size_t s = chain_.size(); s-- > 0;) {
    const std::vector<OpNode>& nodes = chain_[s].graph->nodes;
    for (size_t n = nodes.size(); n-- > 0;) {
      const OpNode& node = nodes[n];
      if (node.op->backward_computes_outputs()) continue;
      for (size_t i = node.op->in_place() ? 1 : 0; i < node.inputs.size(); ++i) {
        require(s, node.inputs[i], LinearSum().Add(recomputed_[s][n]));
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
      if (!run.terms.empty()) Derive(run.terms[0].first, by);
    }
  };
  const size_t first = chain_.size() - std::min(chain_.size(), kTailSegments);
  for (size_t s = chain_.size(); s-- > first;) {
    const SegmentGraph& graph = *chain_[s].graph;
    for (size_t v = 0; v < graph.values.size(); ++v) {
      if (graph.values[v].origin != ValueOrigin::kOp) continue;
      const ValueId id{static_cast<int>(s), static_cast<int>(v)};
      demand(id, Kept(id));
    }
    for (size_t n = graph.nodes.size(); n-- > 0;) {
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
    LinearSum sum;
    if (s > 0) sum.Add(kept_bytes_.back());
    for (size_t g = 0; g < groups_[s].size(); ++g) {
      if (groups_[s][g].device == kNone) continue;
      sum.Add(groups_[s][g].device, GB(costs_.segments[s].groups[g].bytes));
    }
    Derive(kept, sum);
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

LinearSum ScheduleMip::Fetched(int unit) const {
  const UnitChoice& choice = units_[unit];
  if (choice.fetched != kNone) return LinearSum().Add(choice.fetched);
  // Weights that the host has changed are fetched once, wherever they are then.
  return costs_.units[unit].parameters > 0 ? LinearSum(1.0) : Streamed(unit);
}

LinearSum ScheduleMip::HostUpdated(int unit) const {
  if (costs_.units[unit].parameters == 0) return {};
  LinearSum sum(1.0);
  if (units_[unit].device_update != kNone) sum.Add(units_[unit].device_update, -1);
  return sum;
}

// What a segment of a block holds while those above it do their backward: what was recomputed, its
// weights and accumulators.
ScheduleMip::Held ScheduleMip::HeldBy(size_t s) const {
  Held held;
  const SegmentGraph& graph = *chain_[s].graph;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const OpNode& node = graph.nodes[n];
    for (const int output : node.outputs) {
      if (node.op->in_place() && output == node.inputs[0]) continue;
      const double bytes = GB(costs_.segments[s].value_bytes[output]);
      held.most += bytes;
      held.gb.Add(recomputed_[s][n], bytes);
    }
  }
  for (const int unit : costs_.segments[s].units) {
    const UnitCosts& of_unit = costs_.units[unit];
    const double accumulator = GB(of_unit.elements * 4);
    held.most += GB(of_unit.weight_bytes) + accumulator;
    held.gb += Streamed(unit) * GB(of_unit.weight_bytes);
    held.gb += accumulator;
  }
  return held;
}

// Whether a boundary below which nothing waits is kept: 1, unless it is the planner's choice.
LinearSum ScheduleMip::Divided(size_t s) const {
  const int group = OutputGroup(chain_, s);
  if (group < 0 || costs_.segments[s].idle || !costs_.segments[s].groups[group].wanted) return 1.0;
  return Kept({static_cast<int>(s), chain_[s].graph->groups[group].values[0]});
}

// Where a boundary is not kept, the segments on both sides do their backward together: what the
// lower ones hold is there while the upper ones work.
//
// held[s] >= sum over t in [s - depth, s) of of[t] (1 - sum over i in [t, s) of divided[i]), which
// is exact if the block below s has that depth. Rows for a few depths keep the relaxation close;
// the chain of them, with a factor large enough for any depth, makes all of them right.
void ScheduleMip::AddBlocks() {
  constexpr size_t kDepths[] = {1, 2, 3, 4, 6, 8, 12, 16};
  std::vector<int> total;            // columns: GB held by all segments below
  std::vector<double> most = {0.0};  // of that, at most
  for (size_t s = 0; s < chain_.size(); ++s) {
    held_.push_back(program_.AddColumn(0, kInfinity));
    total.push_back(program_.AddColumn(0, kInfinity));
    if (s == 0) continue;
    const Held below = HeldBy(s - 1);
    most.push_back(most.back() + below.most);
    LinearSum sum = below.gb;
    program_.AddRow(0, sum.Add(total[s - 1]).Add(total[s], -1), 0);

    LinearSum chain = below.gb;
    chain.Add(held_[s - 1]);
    Derive(held_[s], chain += Divided(s - 1) * -most[s]);
    for (const size_t depth : kDepths) {
      if (depth > s) break;
      LinearSum block;
      block.Add(total[s]).Add(total[s - depth], -1).Add(held_[s], -1);
      for (size_t i = s - depth; i < s; ++i) block += Divided(i) * (most[s - depth] - most[i + 1]);
      program_.AddAtMost(block, 0);
    }
  }
}

void ScheduleMip::AddHostMemory() {
  const auto most = static_cast<double>(*std::max_element(passes_.begin(), passes_.end()));
  for (size_t s = 0; s < chain_.size(); ++s) {
    for (size_t g = 0; g < groups_[s].size(); ++g) {
      const double bytes = most * GB(costs_.segments[s].groups[g].bytes);
      if (groups_[s][g].host != kNone) host_gb_.Add(groups_[s][g].host, bytes);
      if (groups_[s][g].nvme != kNone) nvme_gb_.Add(groups_[s][g].nvme, bytes);
    }
  }
  const PlanBudget& budget = problem_.budget;
  if (!host_gb_.terms.empty()) program_.AddAtMost(host_gb_, budget.host_activation_bytes / kGB);
  if (nvme_gb_.terms.empty()) return;
  program_.AddAtMost(nvme_gb_, budget.nvme_bytes / kGB);
  host_kept_ = program_.AddColumn(0, kInfinity);
  Derive(host_kept_, host_gb_);
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
  for (size_t s = 0; s < groups_.size(); ++s) {
    SegmentPlan& plan = schedule.segments.emplace_back();
    for (size_t g = 0; g < groups_[s].size(); ++g) {
      const GroupChoice& choice = groups_[s][g];
      Tier tier = Tier::kRecompute;
      // What takes nothing divides blocks for nothing.
      const GroupCosts& costs = costs_.segments[s].groups[g];
      if (costs.wanted && costs.bytes == 0 && problem_.space.MayKeep(chain_, s, g)) {
        tier = Tier::kDevice;
      }
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
