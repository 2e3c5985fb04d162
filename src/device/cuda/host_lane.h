// A lane whose work a thread of the host does, in order with the GPU's.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <optional>

#include "core/thread_pool.h"
#include "device/cpu/cpu_lane_context.h"
#include "device/cuda/shared_state.h"
#include "device/device.h"
#include "device/task_queue.h"

namespace lazytrain::cuda {

// The thread never calls the driver, so a full launch queue, behind which the enqueuing thread is
// stuck inside the driver, cannot keep it from finishing what that queue waits for:
// - a wait for a stream's event is enqueued on a stream of the lane's own, which then sets a
// counter
//   in pinned memory (cuStreamWriteValue32) that the thread watches;
// - a record sets another counter, on which streams wait (cuStreamWaitValue32).
class HostLane final : public Lane {
 public:
  // `threads` of the CpuLaneContext that work runs with.
  HostLane(SharedState& shared, int threads, std::function<void(HostLane*)> on_end);
  ~HostLane() override;

  void Wait(const Event& event) override;
  void Record(Event& event) override;
  void Run(std::function<void(LaneContext&)> work, const Demand& demand) override;
  void Copy(void* target, const void* source, int64_t bytes, const Demand& demand) override;

  void AwaitIdle() { queue_->AwaitIdle(); }

 private:
  void Await(Counter& counter, uint32_t count) const;

  SharedState& shared_;
  cudaStream_t listener_ = nullptr;
  Pinned<Counter> arrived_;  // waits of listener_ that are over
  Pinned<Counter> done_;     // records of this lane that were passed
  uint32_t waits_ = 0;       // enqueued
  uint32_t records_ = 0;
  ThreadPool pool_;
  CpuLaneContext context_;
  std::function<void(HostLane*)> on_end_;
  std::optional<TaskQueue> queue_{std::in_place};  // last: its thread uses all of the above
};

}  // namespace lazytrain::cuda
