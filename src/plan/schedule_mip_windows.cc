// The time of a step in the mixed-integer program: windows, what each asks for, and the queues
// between them.
#include <algorithm>
#include <vector>

#include "core/contains.h"
#include "plan/schedule_mip.h"

namespace lazytrain {
namespace {

LinearSum OneMinus(const LinearSum& sum) {
  LinearSum rest = sum * -1.0;
  rest.constant += 1.0;
  return rest;
}

LinearSum Column(int column) { return LinearSum().Add(column); }

}  // namespace

void ScheduleMip::Window::Add(const Window& other) {
  seconds += other.seconds;
  h2d_before += other.h2d_before;
  h2d_during += other.h2d_during;
  d2h_issued += other.d2h_issued;
  read_before += other.read_before;
  read_during += other.read_during;
  written += other.written;
  memory += other.memory;
  host_updates += other.host_updates;
  made += other.made;
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

// The window that is the first to use a unit has it updated before.
void ScheduleMip::AddUpdate(int u, Window& window) {
  for (int earlier = 0; earlier < window.segment; ++earlier) {
    if (Contains(costs_.segments[earlier].units, u)) return;
  }
  const UnitCosts& unit = costs_.units[u];
  window.host_updates += HostUpdated(u) * GB(unit.parameters);
  const UnitChoice& choice = units_[u];
  if (choice.device_update == kNone) return;
  const double states = GB(unit.state_bytes);
  LinearSum moved;  // states in host memory, updated on the device
  moved.Add(choice.device_update, states).Add(choice.states, -states);
  window.h2d_before += moved;
  window.memory += moved;
  window.d2h_issued += moved;
  window.d2h_issued += Column(choice.weights_back) * GB(unit.weight_bytes);
  const double seconds = static_cast<double>(unit.parameters) / problem_.rates.device_update;
  window.seconds += Column(choice.device_update) * seconds;
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
  for (const int u : costs.units) {
    const UnitCosts& unit = costs_.units[u];
    window.memory += Streamed(u) * GB(unit.weight_bytes);
    if (Contains(before, u)) continue;
    window.h2d_before += (kind.first ? Fetched(u) : Streamed(u)) * GB(unit.weight_bytes);
    if (kind.first && unit.parameters > 0) AddUpdate(u, window);
  }
  for (size_t g = 0; g < groups_[s].size(); ++g) {
    const double bytes = GB(costs.groups[g].bytes);
    for (const int column : {groups_[s][g].host, groups_[s][g].nvme}) {
      if (column != kNone) window.d2h_issued.Add(column, n * bytes);
    }
    if (groups_[s][g].nvme != kNone) window.written.Add(groups_[s][g].nvme, n * bytes);
  }
  window.memory.Add(kept_bytes_[s], n);
  window.memory += GB(costs.forward_bytes);
  // Between two segments the boundary of every micro-batch exists, kept or not.
  window.memory += OneMinus(OnDevice(s)) * ((n + 1) * BoundaryBytes(s));
  return window;
}

// Accumulates the gradient of a unit, and stores it where it rests.
void ScheduleMip::AddGradient(const PassKind& kind, int u, Window& window) {
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
  window.memory.Add(held_[s]);
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
    if (groups_[s][g].nvme == kNone) continue;
    window.read_before.Add(groups_[s][g].nvme, bytes);
    window.read_during.Add(groups_[s][g].nvme, (n - 1) * bytes);
  }
  const auto segments = static_cast<int>(chain_.size());
  const std::vector<int>& before = costs_.segments[std::min(s + 1, segments - 1)].units;
  for (const int u : costs.units) {
    const UnitCosts& unit = costs_.units[u];
    window.memory += Streamed(u) * GB(unit.weight_bytes);
    if (s + 1 < segments && !Contains(before, u)) {
      window.h2d_before += Streamed(u) * GB(unit.weight_bytes);
    }
  }
  for (const int u : costs.gradient_units) {
    AddGradient(kind, u, window);
    const UnitCosts& unit = costs_.units[u];
    window.made += HostUpdated(u) * (GB(unit.parameters) / std::max(1, unit.uses));
  }
  return window;
}

// Time in which nothing computes: what is moved and updated in it is bounded by the rates.
void ScheduleMip::BoundIdle(int seconds, const LinearSum& h2d, const LinearSum& d2h,
                            const LinearSum& updates) {
  BoundRates(Column(seconds), h2d, d2h, updates);
  total_seconds_.Add(seconds);
  exposed_seconds_.Add(seconds);
}

// Bytes in GB and updates in billions of parameters, within `time`.
void ScheduleMip::BoundRates(const LinearSum& time, const LinearSum& h2d, const LinearSum& d2h,
                             const LinearSum& updates) {
  // Coefficients beyond this are no numbers to the solver, and no limits to a step.
  constexpr double kEndless = 1e14;
  const HardwareRates& rates = problem_.rates;
  const auto bound = [&](const LinearSum& amount, double rate) {
    if (amount.terms.empty() || rate > kEndless) return;
    LinearSum row = time * (-rate / kGB);
    program_.AddAtMost(row += amount, 0);
  };
  bound(h2d, rates.h2d_bytes);
  bound(d2h, rates.d2h_bytes);
  bound(updates, rates.host_update);
  LinearSum host = updates * costs_.update_bytes;
  host += h2d;
  host += d2h;
  bound(host, rates.host_bytes);
}

// Before the first window: the first weights, updated and fetched.
void ScheduleMip::StartStep(Queues& queues) {
  const int fetched = program_.AddColumn(0, kInfinity);
  const int updates = program_.AddColumn(0, kInfinity);
  BoundIdle(exposed_start_, Column(fetched), {}, Column(updates));
  queues.ahead = Column(fetched);
  if (problem_.space.clip == ClipMode::kExact) queues.updates = Column(updates);
  h2d_gb_.Add(fetched);
}

void ScheduleMip::AddWindow(const PassKind& kind, const Window& window, Queues& queues) {
  windows_.push_back({kind, window});
  const int exposed = program_.AddColumn(0, kInfinity);
  LinearSum time = window.seconds;
  time.Add(exposed);
  total_seconds_ += time * kind.count;
  exposed_seconds_.Add(exposed, kind.count);

  const int fetched = program_.AddColumn(0, kInfinity);
  const int sent = program_.AddColumn(0, kInfinity);
  const int ahead = program_.AddColumn(0, kInfinity);
  const int unsent = program_.AddColumn(0, kInfinity);
  LinearSum in = queues.ahead;
  program_.AddAtLeast(in += window.h2d_before * -1.0, 0);
  in += window.h2d_during * -1.0;
  program_.AddRow(0, in.Add(fetched).Add(ahead, -1), 0);
  LinearSum out = queues.unsent;
  out += window.d2h_issued;
  program_.AddRow(0, out.Add(sent, -1).Add(unsent, -1), 0);
  queues.ahead = Column(ahead);
  queues.unsent = Column(unsent);
  h2d_gb_.Add(fetched, kind.count);
  d2h_gb_.Add(sent, kind.count);

  const bool previous = problem_.space.clip == ClipMode::kPrevious;
  const bool may_update = previous ? kind.last && window.backward : kind.first && !window.backward;
  LinearSum updates;
  if (may_update) {
    updates = Column(program_.AddColumn(0, kInfinity));
    QueueUpdates(window, updates, queues);
  }
  BoundRates(time, Column(fetched), Column(sent), updates);
  if (host_kept_ != kNone) QueueNvme(window, time, queues);

  LinearSum memory = window.memory;
  memory.Add(persistent_).Add(ahead).Add(unsent);
  program_.AddAtMost(memory, problem_.budget.device_bytes / kGB);
}

// Through host memory: written after it was sent, read before it is fetched. What is on its way
// takes host memory of its own.
void ScheduleMip::QueueNvme(const Window& window, const LinearSum& time, Queues& queues) {
  const HardwareRates& rates = problem_.rates;
  const int written = program_.AddColumn(0, kInfinity);
  const int read = program_.AddColumn(0, kInfinity);
  const int unsaved = program_.AddColumn(0, kInfinity);
  const int staged = program_.AddColumn(0, kInfinity);
  LinearSum out = queues.unsaved;
  program_.AddRow(0, (out += window.written).Add(written, -1).Add(unsaved, -1), 0);
  LinearSum in = queues.staged;
  program_.AddAtLeast(in += window.read_before * -1.0, 0);
  in += window.read_during * -1.0;
  program_.AddRow(0, in.Add(read).Add(staged, -1), 0);
  queues.unsaved = Column(unsaved);
  queues.staged = Column(staged);
  LinearSum write_row = time * (-rates.nvme_write_bytes / kGB);
  program_.AddAtMost(write_row.Add(written), 0);
  LinearSum read_row = time * (-rates.nvme_read_bytes / kGB);
  program_.AddAtMost(read_row.Add(read), 0);
  program_.AddAtMost(LinearSum().Add(host_kept_).Add(unsaved).Add(staged),
                     problem_.budget.host_activation_bytes / kGB);
}

// Exact clipping: what a window of the first forward needs was updated before it. With the norm of
// the step before, what has its gradient can be updated.
void ScheduleMip::QueueUpdates(const Window& window, const LinearSum& updates, Queues& queues) {
  const int left = program_.AddColumn(0, kInfinity);
  LinearSum balance = queues.updates;
  balance.Add(left, -1);
  if (problem_.space.clip == ClipMode::kPrevious) {
    balance += window.made;
    balance += updates * -1.0;
  } else {
    balance += window.host_updates * -1.0;
    program_.AddAtLeast(queues.updates* 1.0 += window.host_updates * -1.0, 0);
    balance += updates;
  }
  program_.AddRow(0, balance, 0);
  queues.updates = Column(left);
}

// After the last window: what is not sent, and not updated, is waited for.
void ScheduleMip::EndStep(Queues& queues) {
  const int tail = program_.AddColumn(0, kInfinity);
  const bool previous = problem_.space.clip == ClipMode::kPrevious;
  BoundIdle(tail, {}, queues.unsent, previous ? queues.updates : LinearSum());
  // What is read was written in the same pass.
  if (host_kept_ != kNone) program_.AddAtMost(queues.staged, 0);
  program_.AddAtMost(queues.ahead, 0);
}

void ScheduleMip::AddPass(const PassKind& kind, Queues& queues) {
  const auto segments = static_cast<int>(chain_.size());
  if (kind.first) StartStep(queues);
  Window idle;
  const auto add = [&](Window window) {
    // Segments without rows take no time: what they move is the next one's.
    window.Add(idle);
    idle = costs_.segments[window.segment].idle ? window : Window();
    const bool end = window.backward && window.segment == 0;
    if (end || !costs_.segments[window.segment].idle) AddWindow(kind, window, queues);
  };
  for (int s = 0; s < segments; ++s) add(ForwardWindow(kind, s));
  for (int s = segments - 1; s >= 0; --s) add(BackwardWindow(kind, s));
  if (kind.last) EndStep(queues);
}

}  // namespace lazytrain
