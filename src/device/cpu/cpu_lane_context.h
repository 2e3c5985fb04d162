// Where the virtual accelerator's kernels run.
#pragma once

#include "core/thread_pool.h"
#include "device/device.h"

namespace lazytrain {

class CpuLaneContext : public LaneContext {
 public:
  explicit CpuLaneContext(ThreadPool& threads) : threads_(threads) {}
  ThreadPool& threads() const { return threads_; }

 private:
  ThreadPool& threads_;
};

}  // namespace lazytrain
