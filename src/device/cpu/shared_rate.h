// The throttle: makes work take as long as on a machine whose host memory is shared, in real time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <list>
#include <mutex>

#include "device/device.h"

namespace lazytrain {

// The same rule as ComputeTimeline: work that touches host memory slows down together once it would
// move more than the limit.
class SharedRate {
 public:
  using Clock = std::chrono::steady_clock;

  explicit SharedRate(double host_bytes_per_second) : limit_(host_bytes_per_second) {}

  // Work that takes part from its begin until its end, on its own thread.
  class Participant {
   public:
    Participant(SharedRate& rate, const Demand& demand);
    ~Participant();
    Participant(const Participant&) = delete;
    Participant& operator=(const Participant&) = delete;
    // Returns once the demand is met at the shared rate.
    void WaitUntilDone();

   private:
    friend class SharedRate;
    SharedRate& rate_;
    Demand demand_;
    double remaining_;  // seconds at full speed
    std::list<Participant*>::iterator place_;
  };

 private:
  // Moves everybody's `remaining_` on to now, at the rate that held since the last call.
  void Settle();
  double Slowdown() const;

  double limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Participant*> active_;
  Clock::time_point settled_ = Clock::now();
};

}  // namespace lazytrain
