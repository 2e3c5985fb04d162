#include "device/timeline.h"

#include <algorithm>
#include <limits>

namespace lazytrain {
namespace {

struct Running {
  int work = -1;         // -1: the lane is idle
  double remaining = 0;  // seconds at full speed
};

class Engine {
 public:
  Engine(const std::vector<TimedWork>& work, int lanes, double host_bytes_per_second)
      : work_(work),
        host_rate_(host_bytes_per_second),
        queues_(static_cast<size_t>(lanes)),
        heads_(static_cast<size_t>(lanes), 0),
        running_(static_cast<size_t>(lanes)),
        done_(work.size(), false),
        spans_(work.size()) {
    for (size_t i = 0; i < work.size(); ++i) {
      queues_[static_cast<size_t>(work[i].lane)].push_back(static_cast<int>(i));
    }
  }

  std::vector<TimedSpan> Run() {
    size_t finished = 0;
    while (finished < work_.size()) {
      StartWhatCan();
      const double slowdown = Slowdown();
      double step = std::numeric_limits<double>::infinity();
      for (const Running& lane : running_) {
        if (lane.work >= 0) step = std::min(step, lane.remaining * Factor(lane, slowdown));
      }
      finished += Advance(step, slowdown);
    }
    return std::move(spans_);
  }

 private:
  void StartWhatCan() {
    for (size_t lane = 0; lane < running_.size(); ++lane) {
      if (running_[lane].work >= 0 || heads_[lane] >= queues_[lane].size()) continue;
      const int next = queues_[lane][heads_[lane]];
      const std::vector<int>& waits = work_[next].waits;
      if (!std::all_of(waits.begin(), waits.end(), [&](int w) { return done_[w]; })) continue;
      ++heads_[lane];
      running_[lane] = {next, work_[next].seconds};
      spans_[next].start = now_;
    }
  }

  // How much longer than alone work on host memory takes now.
  double Slowdown() const {
    double wanted = 0;
    for (const Running& lane : running_) {
      if (lane.work < 0 || work_[lane.work].seconds <= 0) continue;
      wanted += static_cast<double>(work_[lane.work].host_bytes) / work_[lane.work].seconds;
    }
    return host_rate_ > 0 ? std::max(1.0, wanted / host_rate_) : 1.0;
  }

  double Factor(const Running& lane, double slowdown) const {
    return work_[lane.work].host_bytes > 0 ? slowdown : 1.0;
  }

  size_t Advance(double step, double slowdown) {
    now_ += step;
    size_t finished = 0;
    for (Running& lane : running_) {
      if (lane.work < 0) continue;
      const double factor = Factor(lane, slowdown);
      // Whoever set the step ends exactly now; comparing products keeps rounding out of it.
      if (lane.remaining * factor <= step) {
        spans_[lane.work].end = now_;
        done_[lane.work] = true;
        lane.work = -1;
        ++finished;
      } else {
        lane.remaining -= step / factor;
      }
    }
    return finished;
  }

  const std::vector<TimedWork>& work_;
  double host_rate_;
  double now_ = 0;
  std::vector<std::vector<int>> queues_;
  std::vector<size_t> heads_;
  std::vector<Running> running_;
  std::vector<bool> done_;
  std::vector<TimedSpan> spans_;
};

}  // namespace

std::vector<TimedSpan> ComputeTimeline(const std::vector<TimedWork>& work, int lanes,
                                       double host_bytes_per_second) {
  return Engine(work, lanes, host_bytes_per_second).Run();
}

}  // namespace lazytrain
