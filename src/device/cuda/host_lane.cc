#include "device/cuda/host_lane.h"

#include <immintrin.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "core/error.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_event.h"

namespace lazytrain::cuda {

HostLane::HostLane(SharedState& shared, int threads, std::function<void(HostLane*)> on_end)
    : shared_(shared), pool_(threads), context_(pool_), on_end_(std::move(on_end)) {
  Check(cudaStreamCreateWithFlags(&listener_, cudaStreamNonBlocking), "creating a stream");
}

HostLane::~HostLane() {
  on_end_(this);
  queue_.reset();
  cudaStreamSynchronize(listener_);
  cudaStreamDestroy(listener_);
}

void HostLane::Wait(const Event& event) {
  const auto& awaited = static_cast<const CudaEvent&>(event);
  shared_.Attempt([&] {
    if (awaited.recorder() == CudaEvent::Recorder::kNone) {
      throw InternalError("a host lane waits for an event that nobody recorded");
    }
    Counter* counter = awaited.counter();
    uint32_t count = awaited.count();
    if (awaited.recorder() == CudaEvent::Recorder::kStream) {
      Check(cudaStreamWaitEvent(listener_, awaited.handle()), "waiting for an event");
      counter = arrived_.get();
      count = ++waits_;
      shared_.WriteTo(listener_, *counter, count);
    }
    queue_->Enqueue([this, counter, count] { Await(*counter, count); });
  });
}

void HostLane::Record(Event& event) {
  auto& recorded = static_cast<CudaEvent&>(event);
  const uint32_t count = ++records_;
  recorded.RecordOnHost(done_.get(), count);
  queue_->Enqueue([this, &recorded, count] {
    recorded.Pass(shared_.Now());
    done_.get()->Store(count);
  });
}

void HostLane::Run(std::function<void(LaneContext&)> work, const Demand& /*demand*/) {
  queue_->Enqueue([this, work = std::move(work)] {
    if (shared_.failed()) return;
    shared_.Attempt([&] { work(context_); });
  });
}

void HostLane::Copy(void* target, const void* source, int64_t bytes, const Demand& demand) {
  Run([=](LaneContext&) { std::memcpy(target, source, static_cast<size_t>(bytes)); }, demand);
}

// Watching costs a core for the first moments only: what takes longer is not urgent to the
// microsecond.
void HostLane::Await(Counter& counter, uint32_t count) const {
  constexpr int kSpins = 2000;
  for (int spin = 0; !counter.Reached(count) && !shared_.broken(); ++spin) {
    if (spin < kSpins) {
      _mm_pause();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

}  // namespace lazytrain::cuda
