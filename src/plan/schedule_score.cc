#include "plan/schedule_score.h"

#include <algorithm>

namespace lazytrain {

ScheduleScore::ScheduleScore(const ScheduleMip& mip)
    : mip_(mip), device_gb_(mip.problem_.budget.device_bytes / ScheduleMip::kGB) {
  const HardwareRates& rates = mip.problem_.rates;
  h2d_ = rates.h2d_bytes / ScheduleMip::kGB;
  d2h_ = rates.d2h_bytes / ScheduleMip::kGB;
  host_ = rates.host_bytes / ScheduleMip::kGB;
  // Arithmetic or memory, whichever is slower.
  updates_ = std::min(rates.host_update / ScheduleMip::kGB, host_ / mip.costs_.update_bytes);
  windows_.resize(mip.windows_.size());
}

double ScheduleScore::Value(const LinearSum& sum, const std::vector<double>& columns) const {
  double value = sum.constant;
  for (const auto& [column, factor] : sum.terms) value += factor * columns[column];
  return value;
}

ScheduleScore::Score ScheduleScore::Of(std::vector<double>& columns) {
  for (const ScheduleMip::Derived& derived : mip_.derived_) columns[derived.column] = 0;
  for (const ScheduleMip::Derived& derived : mip_.derived_) {
    double& value = columns[derived.column];
    value = std::max(value, Value(derived.lower, columns));
  }
  double seconds = 0;
  for (size_t w = 0; w < windows_.size(); ++w) {
    const ScheduleMip::Window& window = mip_.windows_[w].window;
    windows_[w] = {Value(window.seconds, columns),
                   Value(window.h2d_before, columns),
                   Value(window.h2d_during, columns),
                   Value(window.d2h_issued, columns),
                   Value(window.memory, columns) + columns[mip_.persistent_],
                   Value(window.host_updates, columns),
                   Value(window.made, columns),
                   Value(window.written, columns),
                   Value(window.read_before, columns),
                   Value(window.read_during, columns),
                   0,
                   0,
                   0,
                   0};
    seconds += mip_.windows_[w].kind.count * windows_[w].seconds;
  }
  const PlanBudget& budget = mip_.problem_.budget;
  excess_ = 0;
  if (mip_.host_kept_ != ScheduleMip::kNone) {
    const double kept = Value(mip_.host_gb_, columns);
    const double room = std::max(0.0, budget.host_activation_bytes / ScheduleMip::kGB - kept);
    Write(room);
    excess_ += Read(room);
  }
  const double unsent = Send();
  const double ahead = Fetch();
  const double waiting = Update();
  const bool previous = mip_.problem_.space.clip == ClipMode::kPrevious;
  seconds += Idle(ahead / h2d_, ahead, previous ? 0 : waiting);
  seconds += Idle(unsent / d2h_, unsent, previous ? waiting : 0);
  for (size_t w = 0; w < windows_.size(); ++w) {
    seconds += mip_.windows_[w].kind.count * windows_[w].exposed;
  }
  const auto above = [&](const LinearSum& sum, double bytes) {
    return std::max(0.0, Value(sum, columns) - bytes / ScheduleMip::kGB);
  };
  excess_ +=
      above(mip_.host_gb_, budget.host_activation_bytes) + above(mip_.nvme_gb_, budget.nvme_bytes);
  return {seconds, excess_};
}

// Seconds in which nothing computes: some GB cross a link, and some parameters are updated.
double ScheduleScore::Idle(double link_seconds, double gb, double updates) const {
  return std::max(
      {link_seconds, (gb + updates * mip_.costs_.update_bytes) / host_, updates / updates_});
}

// To NVMe as early as can be; what waits takes the host memory that kept activations leave.
void ScheduleScore::Write(double room) {
  const double rate = mip_.problem_.rates.nvme_write_bytes / ScheduleMip::kGB;
  double unsaved = 0;
  for (Numbers& window : windows_) {
    unsaved += window.written;
    unsaved -= std::min(unsaved, rate * (window.seconds + window.exposed));
    if (unsaved <= room) continue;
    window.exposed += (unsaved - room) / rate;
    unsaved = room;
  }
}

// From NVMe as late as can be, through the same memory; returns the GB too many.
double ScheduleScore::Read(double room) {
  const double rate = mip_.problem_.rates.nvme_read_bytes / ScheduleMip::kGB;
  double staged = 0;
  double excess = 0;
  for (size_t w = windows_.size(); w-- > 0;) {
    Numbers& window = windows_[w];
    const double wanted = window.read_during + staged;
    double late = wanted - std::min(wanted, rate * (window.seconds + window.exposed));
    excess = std::max(excess, window.read_before - room);
    const double waiting = std::max(0.0, std::min(late, window.read_before + late - room));
    window.exposed += waiting / rate;
    late -= waiting;
    staged = window.read_before + late;
  }
  return std::max(excess, 0.0);
}

// As early as can be; returns the GB that are left after the step.
double ScheduleScore::Send() {
  const double rate = std::min(d2h_, host_);
  double unsent = 0;
  double most = 0;
  for (Numbers& window : windows_) {
    const double wanted = unsent + window.issued;
    window.sent = std::min(wanted, rate * window.seconds);
    unsent = wanted - window.sent;
    const double room = device_gb_ - window.memory;
    if (unsent > room && unsent > 0) {
      const double late = std::min(unsent, unsent - room);
      window.exposed += late / rate;
      window.sent += late;
      unsent -= late;
    }
    most = std::max(most, -room);
    window.unsent = unsent;
  }
  excess_ += most;
  return unsent;
}

// As late as can be; returns the GB that are fetched before the step.
double ScheduleScore::Fetch() {
  double ahead = 0;
  double most = 0;
  for (size_t w = windows_.size(); w-- > 0;) {
    Numbers& window = windows_[w];
    const double time = window.seconds + window.exposed;
    const double possible = std::max(0.0, std::min(h2d_ * time, host_ * time - window.sent));
    const double wanted = window.during + ahead;
    window.fetched = std::min(wanted, possible);
    double needed = window.before + wanted - window.fetched;
    if (w > 0) {
      Numbers& last = windows_[w - 1];
      double room = std::max(0.0, device_gb_ - last.memory - last.unsent);
      if (window.before > room && last.unsent > 0) {
        // What waits to be sent has to make room first.
        const double late = std::min(last.unsent, window.before - room);
        last.exposed += late / std::min(d2h_, host_);
        last.sent += late;
        last.unsent -= late;
        room += late;
      }
      most = std::max(most, std::min(window.before, needed) - room);
      if (needed > room) {
        const double late = std::min(needed - room, wanted - window.fetched);
        const double rate = std::min(h2d_, host_);
        window.exposed += late / rate;
        window.fetched += late;
        needed -= late;
      }
    }
    ahead = needed;
  }
  excess_ += std::max(0.0, most);
  return ahead;
}

// Host updates beside the links; returns the billions of parameters left for a time of their own:
// before the step, or after it with the norm of the step before.
double ScheduleScore::Update() {
  const double bytes = mip_.costs_.update_bytes;
  const auto possible = [&](const Numbers& window) {
    const double time = window.seconds + window.exposed;
    const double free = std::max(0.0, host_ * time - window.sent - window.fetched);
    return std::min(updates_ * time, free / bytes);
  };
  double waiting = 0;
  if (mip_.problem_.space.clip == ClipMode::kPrevious) {
    for (size_t w = 0; w < windows_.size(); ++w) {
      const ScheduleMip::Placed& placed = mip_.windows_[w];
      if (!placed.kind.last || !placed.window.backward) continue;
      waiting = std::max(0.0, waiting + windows_[w].made - possible(windows_[w]));
    }
    return waiting;
  }
  for (size_t w = windows_.size(); w-- > 0;) {
    const ScheduleMip::Placed& placed = mip_.windows_[w];
    if (!placed.kind.first || placed.window.backward) continue;
    waiting = std::max(0.0, waiting - possible(windows_[w])) + windows_[w].updates;
  }
  return waiting;
}

}  // namespace lazytrain
