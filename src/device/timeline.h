// When work on lanes runs, by arithmetic: the model of time that the simulator and the virtual
// clock share. Lanes run their work in order; work waits for other work; host memory is one
// resource that everything touching it divides.
#pragma once

#include <cstdint>
#include <vector>

namespace lazytrain {

struct TimedWork {
  int lane = 0;
  std::vector<int> waits;  // positions of earlier work
  // With the host memory to itself:
  double seconds = 0;
  int64_t host_bytes = 0;  // host memory traffic within these seconds
};

struct TimedSpan {
  double start = 0;
  double end = 0;
};

// Work is given in an order in which nothing waits for what comes later. Whenever the running work
// would together move more than `host_bytes_per_second` (0: no limit), all of it that touches host
// memory slows down by the same factor.
std::vector<TimedSpan> ComputeTimeline(const std::vector<TimedWork>& work, int lanes,
                                       double host_bytes_per_second);

}  // namespace lazytrain
