// The step time of a schedule as the mixed-integer program has it, without solving anything: a
// search can ask thousands of times a second.
#pragma once

#include <vector>

#include "plan/schedule_mip.h"

namespace lazytrain {

class ScheduleScore {
 public:
  // `mip` is read on each call and has to stay.
  explicit ScheduleScore(const ScheduleMip& mip);

  struct Score {
    double seconds = 0;  // of the step, were all budgets kept to
    double excess = 0;   // GB above the budgets of device, host and NVMe; 0: it fits
  };

  // `columns`: the program's; of a solution the choices are read, what follows from them is
  // overwritten. Fetches are as late and sends as early as can be, which is not always the best
  // there is: a little above the program's own optimum.
  Score Of(std::vector<double>& columns);

 private:
  // What a window asks for, in numbers.
  struct Numbers {
    double seconds, before, during, issued, memory, updates, made;
    double written, read_before, read_during;  // NVMe
    double exposed, sent, unsent, fetched;
  };

  double Value(const LinearSum& sum, const std::vector<double>& columns) const;
  double Idle(double link_seconds, double gb, double updates) const;
  void Write(double room);
  double Read(double room);
  double Send();
  double Fetch();
  double Update();

  const ScheduleMip& mip_;
  double h2d_, d2h_, host_, updates_;  // billions a second
  double device_gb_;
  double excess_ = 0;
  std::vector<Numbers> windows_;
};

}  // namespace lazytrain
