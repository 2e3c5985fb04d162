#include "device/cuda/stream_lane.h"

#include <utility>

#include "core/error.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_event.h"
#include "device/cuda/nvtx_range.h"

namespace lazytrain::cuda {
namespace {

cudaStream_t MakeStream(int priority) {
  cudaStream_t stream = nullptr;
  Check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority),
        "creating a stream");
  return stream;
}

}  // namespace

StreamLane::StreamLane(SharedState& shared, int priority, std::string name,
                       std::function<void(StreamLane*)> on_end)
    : shared_(shared),
      name_(std::move(name)),
      stream_(MakeStream(priority)),
      context_(stream_, shared.gpu(), shared.fault(), &shared.choices()),
      on_end_(std::move(on_end)) {
  NameStream(stream_, name_.c_str());
}

StreamLane::~StreamLane() {
  on_end_(this);
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

void StreamLane::Wait(const Event& event) {
  const auto& awaited = static_cast<const CudaEvent&>(event);
  shared_.Attempt([&] {
    switch (awaited.recorder()) {
      case CudaEvent::Recorder::kStream:
        return Check(cudaStreamWaitEvent(stream_, awaited.handle()), "waiting for an event");
      case CudaEvent::Recorder::kHost:
        return shared_.WaitFor(stream_, *awaited.counter(), awaited.count());
      case CudaEvent::Recorder::kNone:
        throw InternalError("a stream waits for an event that nobody recorded");
    }
  });
}

void StreamLane::Record(Event& event) {
  shared_.Attempt([&] { static_cast<CudaEvent&>(event).RecordOn(stream_, shared_.epoch()); });
}

void StreamLane::Run(std::function<void(LaneContext&)> work, const Demand& /*demand*/) {
  if (shared_.failed()) return;
  shared_.Attempt([&] { work(context_); });
}

void StreamLane::Copy(void* target, const void* source, int64_t bytes, const Demand& /*demand*/) {
  if (bytes == 0 || shared_.failed()) return;
  const NvtxRange range(name_.c_str());
  shared_.Attempt([&] {
    Check(cudaMemcpyAsync(target, source, static_cast<size_t>(bytes), cudaMemcpyDefault, stream_),
          "copying");
  });
}

void StreamLane::Synchronize() {
  const cudaError_t status = cudaStreamSynchronize(stream_);
  if (status == cudaSuccess) return;
  shared_.Break();
  try {
    Check(status, "running the step on the GPU");
  } catch (...) {
    shared_.Fail(std::current_exception());
  }
}

}  // namespace lazytrain::cuda
