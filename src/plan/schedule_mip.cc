#include "plan/schedule_mip.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/error.h"

namespace lazytrain {
namespace {

constexpr double kGB = 1e9;
// Forward of the last segments may be left to backward; of those before it runs in any schedule
// that keeps anything.
constexpr size_t kTailSegments = 3;

// Billions: of bytes, or of parameters.
double GB(int64_t bytes) { return static_cast<double>(bytes) / kGB; }

// Units of a window that the one before it did not have on the device.
std::vector<int> NewUnits(const std::vector<int>& units, const std::vector<int>& before) {
  std::vector<int> fresh;
  for (const int unit : units) {
    if (std::find(before.begin(), before.end(), unit) == before.end()) fresh.push_back(unit);
  }
  return fresh;
}

LinearSum OneMinus(const LinearSum& sum) {
  LinearSum rest = sum * -1.0;
  rest.constant += 1.0;
  return rest;
}

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
  exposed_start_ = program_.AddColumn(0, kInfinity);
  for (const PassKind& kind : PassKinds()) AddPass(kind);
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
  LinearSum bytes(problem_.budget.device_fixed_bytes / kGB);
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

std::vector<ScheduleMip::PassKind> ScheduleMip::PassKinds() const {
  const auto size = [&](size_t pass) { return static_cast<double>(passes_[pass]); };
  if (passes_.size() == 1) return {{size(0), 1, true, true}};
  std::vector<PassKind> kinds = {{size(0), 1, true, false}};
  if (passes_.size() > 2) {
    double sum = 0;
    for (size_t p = 1; p + 1 < passes_.size(); ++p) sum += size(p);
    const auto between = static_cast<double>(passes_.size() - 2);
    kinds.push_back({sum / between, between, false, false});
  }
  kinds.push_back({size(passes_.size() - 1), 1, false, true});
  return kinds;
}

ScheduleMip::Window ScheduleMip::ForwardWindow(const PassKind& kind, int s) {
  const SegmentCosts& costs = costs_.segments[s];
  const double n = kind.micro_batches;
  Window window;
  window.segment = s;
  for (size_t i = 0; i < costs.nodes.size(); ++i) {
    window.seconds += runs_[s][i] * (n * costs.nodes[i].forward);
  }
  const std::vector<int> before = s > 0 ? costs_.segments[s - 1].units : std::vector<int>();
  double weights = 0;
  for (const int u : costs.units) {
    const UnitCosts& unit = costs_.units[u];
    window.memory += Streamed(u) * GB(unit.weight_bytes);
    weights += GB(unit.weight_bytes);
    if (NewUnits({u}, before).empty()) continue;
    window.h2d_before += Streamed(u) * GB(unit.weight_bytes);
    if (!kind.first || unit.parameters == 0) continue;
    // The first window that uses a unit updates it.
    bool seen = false;
    for (int earlier = 0; earlier < s; ++earlier) {
      const std::vector<int>& units = costs_.segments[earlier].units;
      seen = seen || std::find(units.begin(), units.end(), u) != units.end();
    }
    if (seen) continue;
    window.host_updates += HostUpdated(u) * GB(unit.parameters);
    const UnitChoice& choice = units_[u];
    if (choice.device_update == kNone) continue;
    const double states = GB(unit.state_bytes);
    LinearSum moved;  // states in host memory, updated on the device
    moved.Add(choice.device_update, states).Add(choice.states, -states);
    window.h2d_before += moved;
    window.memory += moved;
    window.d2h_issued += moved;
    LinearSum written;
    window.d2h_issued += written.Add(choice.device_update, GB(unit.weight_bytes));
    LinearSum update;
    window.seconds += update.Add(
        choice.device_update, static_cast<double>(unit.parameters) / problem_.rates.device_update);
  }
  double offloaded = 0;
  for (size_t g = 0; g < groups_[s].size(); ++g) {
    const double bytes = GB(costs.groups[g].bytes);
    for (const int column : {groups_[s][g].host, groups_[s][g].nvme}) {
      if (column != kNone) window.d2h_issued.Add(column, n * bytes);
    }
    offloaded += bytes;
  }
  window.memory.Add(kept_bytes_[s], n);
  window.memory += GB(costs.forward_bytes);
  // Between two segments the boundary of every micro-batch exists, kept or not.
  window.memory += OneMinus(OnDevice(s)) * ((n + 1) * BoundaryBytes(s));
  return window;
}

ScheduleMip::Window ScheduleMip::BackwardWindow(const PassKind& kind, int s) {
  const SegmentCosts& costs = costs_.segments[s];
  const double n = kind.micro_batches;
  Window window;
  window.segment = s;
  window.backward = true;
  window.seconds += n * costs.Backward();
  const SegmentGraph& graph = *chain_[s].graph;
  for (size_t i = 0; i < costs.nodes.size(); ++i) {
    window.seconds.Add(recomputed_[s][i], n * costs.nodes[i].forward);
    recompute_seconds_.Add(recomputed_[s][i], kind.count * n * costs.nodes[i].forward);
    for (const int output : graph.nodes[i].outputs) {
      if (graph.nodes[i].op->in_place() && output == graph.nodes[i].inputs[0]) continue;
      window.memory.Add(recomputed_[s][i], GB(costs.value_bytes[output]));
    }
  }
  window.memory.Add(block_values_[s]).Add(block_units_[s]);
  window.memory.Add(kept_bytes_[s], n);
  window.memory += GB(costs.gradient_bytes) + (n + 1) * BoundaryBytes(s);
  for (size_t g = 0; g < groups_[s].size(); ++g) {
    const double bytes = GB(costs.groups[g].bytes);
    for (const int column : {groups_[s][g].host, groups_[s][g].nvme}) {
      if (column == kNone) continue;
      window.h2d_before.Add(column, bytes);
      window.h2d_during.Add(column, (n - 1) * bytes);
      window.memory.Add(column, 2 * bytes);
    }
  }
  const auto segments = static_cast<int>(chain_.size());
  const std::vector<int>& before = costs_.segments[std::min(s + 1, segments - 1)].units;
  for (const int u : costs.units) {
    const UnitCosts& unit = costs_.units[u];
    window.memory += Streamed(u) * GB(unit.weight_bytes);
    if (s + 1 < segments && !NewUnits({u}, before).empty()) {
      window.h2d_before += Streamed(u) * GB(unit.weight_bytes);
    }
  }
  for (const int u : costs.gradient_units) {
    const UnitCosts& unit = costs_.units[u];
    LinearSum streamed(1.0);
    if (units_[u].accumulator != kNone) streamed.Add(units_[u].accumulator, -1);
    window.memory += streamed * GB(unit.elements * 4);
    const double sweep = static_cast<double>(unit.elements) / problem_.rates.device_bytes;
    window.seconds += 8 * sweep;
    if (!kind.first) {
      window.h2d_before += streamed * GB(unit.gradient_bytes);
      window.seconds += streamed * (10 * sweep);
    }
    const LinearSum stored = kind.last ? HostUpdated(u) : streamed;
    window.d2h_issued += stored * GB(unit.gradient_bytes);
    window.memory += GB(unit.gradient_bytes);
  }
  return window;
}

void ScheduleMip::AddPass(const PassKind& kind) {
  HardwareRates rates = problem_.rates;
  // Coefficients beyond this are no numbers to the solver, and no limits to a step.
  for (double* rate : {&rates.h2d_bytes, &rates.d2h_bytes, &rates.host_bytes, &rates.host_update}) {
    *rate = std::min(*rate, 1e14);
  }
  const bool previous = problem_.space.clip == ClipMode::kPrevious;
  const auto segments = static_cast<int>(chain_.size());
  std::vector<Window> windows;
  for (int s = 0; s < segments; ++s) windows.push_back(ForwardWindow(kind, s));
  for (int s = segments - 1; s >= 0; --s) windows.push_back(BackwardWindow(kind, s));

  const LinearSum persistent = PersistentBytes();
  constexpr double kUpdateBytes = 26;  // a parameter: gradient read; weights, states read, written
  LinearSum updated;                   // parameters on the host so far
  LinearSum wanted;                    // of them, those needed so far
  LinearSum made;                      // parameters whose gradients are final, in the last pass
  LinearSum ahead = fetched_ahead_;
  LinearSum unsent = unsent_;
  if (kind.first) {
    LinearSum start;
    start.Add(exposed_start_);
    const int fetched = program_.AddColumn(0, kInfinity);
    LinearSum room;
    program_.AddAtMost(room.Add(fetched).Add(exposed_start_, -rates.h2d_bytes / kGB), 0);
    ahead = LinearSum().Add(fetched);
    h2d_gb_.Add(fetched);
    const int first_updates = program_.AddColumn(0, kInfinity);
    LinearSum rate;
    program_.AddAtMost(rate.Add(first_updates).Add(exposed_start_, -rates.host_update * 1e-9), 0);
    LinearSum memory;
    program_.AddAtMost(memory.Add(first_updates, kUpdateBytes)
                           .Add(fetched)
                           .Add(exposed_start_, -rates.host_bytes / kGB),
                       0);
    updated.Add(first_updates);
    total_seconds_ += start;
    exposed_seconds_ += start;
  }
  for (size_t w = 0; w < windows.size(); ++w) {
    const Window& window = windows[w];
    const int exposed = program_.AddColumn(0, kInfinity);
    LinearSum time = window.seconds;
    time.Add(exposed);
    total_seconds_ += time * kind.count;
    exposed_seconds_.Add(exposed, kind.count);
    // Up to date before it starts.
    wanted += window.host_updates;
    if (kind.first && !window.backward && !window.host_updates.terms.empty()) {
      LinearSum enough = updated;
      enough += wanted * -1.0;
      program_.AddAtLeast(enough, 0);
    } else if (kind.first && !window.backward && window.host_updates.constant > 0) {
      LinearSum enough = updated;
      enough += wanted * -1.0;
      program_.AddAtLeast(enough, 0);
    }
    // Queues.
    const int fetched = program_.AddColumn(0, kInfinity);
    const int sent = program_.AddColumn(0, kInfinity);
    LinearSum before = ahead;
    before += window.h2d_before * -1.0;
    program_.AddAtLeast(before, 0);
    const int ahead_after = program_.AddColumn(0, kInfinity);
    LinearSum balance = ahead;
    balance.Add(fetched).Add(ahead_after, -1);
    balance += window.h2d_before * -1.0;
    balance += window.h2d_during * -1.0;
    program_.AddRow(0, balance, 0);
    ahead = LinearSum().Add(ahead_after);
    const int unsent_after = program_.AddColumn(0, kInfinity);
    balance = unsent;
    balance += window.d2h_issued;
    balance.Add(sent, -1).Add(unsent_after, -1);
    program_.AddRow(0, balance, 0);
    unsent = LinearSum().Add(unsent_after);
    h2d_gb_.Add(fetched, kind.count);
    d2h_gb_.Add(sent, kind.count);
    // Rates.
    LinearSum up = time * (-rates.h2d_bytes / kGB);
    program_.AddAtMost(up.Add(fetched), 0);
    LinearSum down = time * (-rates.d2h_bytes / kGB);
    program_.AddAtMost(down.Add(sent), 0);
    LinearSum host = time * (-rates.host_bytes / kGB);
    host.Add(fetched).Add(sent);
    const bool may_update = previous ? kind.last && window.backward : kind.first;
    if (may_update && (previous || !window.backward)) {
      const int updates = program_.AddColumn(0, kInfinity);
      LinearSum rate = time * (-rates.host_update * 1e-9);
      program_.AddAtMost(rate.Add(updates), 0);
      host.Add(updates, kUpdateBytes);
      updated.Add(updates);
    }
    program_.AddAtMost(host, 0);
    if (window.backward && kind.last) {
      for (const int u : costs_.segments[window.segment].gradient_units) {
        made +=
            HostUpdated(u) * (GB(costs_.units[u].parameters) / std::max(1, costs_.units[u].uses));
      }
      if (previous) {
        LinearSum room = updated;
        room += made * -1.0;
        program_.AddAtMost(room, 0);
      }
    }
    // Memory.
    LinearSum memory = window.memory;
    memory += persistent;
    memory.Add(ahead_after).Add(unsent_after);
    device_rows_.push_back(program_.AddAtMost(memory, problem_.budget.device_bytes / kGB));
  }
  fetched_ahead_ = ahead;
  unsent_ = unsent;
  if (!kind.last) return;
  // What is left at the end of the step is waited for.
  const int tail = program_.AddColumn(0, kInfinity);
  LinearSum send = unsent;
  program_.AddAtMost(send.Add(tail, -rates.d2h_bytes / kGB), 0);
  LinearSum nothing_ahead = ahead;
  program_.AddAtMost(nothing_ahead, 0);
  total_seconds_.Add(tail);
  exposed_seconds_.Add(tail);
  if (previous) {
    const int last_updates = program_.AddColumn(0, kInfinity);
    LinearSum rate;
    program_.AddAtMost(rate.Add(last_updates).Add(tail, -rates.host_update * 1e-9), 0);
    LinearSum memory;
    program_.AddAtMost(memory.Add(last_updates, kUpdateBytes).Add(tail, -rates.host_bytes / kGB),
                       0);
    updated.Add(last_updates);
    LinearSum all = updated;
    all += made * -1.0;
    program_.AddAtLeast(all, 0);
  }
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
