#include "device/cpu/shared_rate.h"

#include <algorithm>

namespace lazytrain {

double SharedRate::Slowdown() const {
  double wanted = 0;
  for (const Participant* p : active_) {
    if (p->remaining_ > 0 && p->demand_.seconds > 0) {
      wanted += static_cast<double>(p->demand_.host_bytes) / p->demand_.seconds;
    }
  }
  return limit_ > 0 ? std::max(1.0, wanted / limit_) : 1.0;
}

void SharedRate::Settle() {
  Clock::time_point now = Clock::now();
  double passed = std::chrono::duration<double>(now - settled_).count();
  settled_ = now;
  // Whoever runs out on the way speeds the others up from that moment on.
  while (passed > 0) {
    const double slowdown = Slowdown();
    double step = passed;
    for (const Participant* p : active_) {
      const double factor = p->demand_.host_bytes > 0 ? slowdown : 1.0;
      if (p->remaining_ > 0) step = std::min(step, p->remaining_ * factor);
    }
    for (Participant* p : active_) {
      const double factor = p->demand_.host_bytes > 0 ? slowdown : 1.0;
      if (p->remaining_ <= 0) continue;
      p->remaining_ = p->remaining_ * factor <= step ? 0.0 : p->remaining_ - step / factor;
    }
    passed -= step;
  }
}

SharedRate::Participant::Participant(SharedRate& rate, const Demand& demand)
    : rate_(rate), demand_(demand), remaining_(demand.seconds) {
  const std::lock_guard lock(rate_.mutex_);
  rate_.Settle();
  place_ = rate_.active_.insert(rate_.active_.end(), this);
  rate_.changed_.notify_all();
}

SharedRate::Participant::~Participant() {
  const std::lock_guard lock(rate_.mutex_);
  rate_.Settle();
  rate_.active_.erase(place_);
  rate_.changed_.notify_all();
}

void SharedRate::Participant::WaitUntilDone() {
  std::unique_lock lock(rate_.mutex_);
  rate_.Settle();
  while (remaining_ > 0) {
    const double factor = demand_.host_bytes > 0 ? rate_.Slowdown() : 1.0;
    rate_.changed_.wait_for(lock, std::chrono::duration<double>(remaining_ * factor));
    rate_.Settle();
  }
}

}  // namespace lazytrain
