#include "device/cuda/cuda_event.h"

#include <utility>

#include "core/error.h"
#include "device/cuda/cuda_error.h"

namespace lazytrain::cuda {

CudaEvent::~CudaEvent() {
  if (handle_ != nullptr) cudaEventDestroy(handle_);
}

double CudaEvent::seconds() const {
  if (recorder_ == Recorder::kHost) return host_seconds_;
  if (recorder_ == Recorder::kNone) throw InternalError("the time of an event never recorded");
  float milliseconds = 0;
  Check(cudaEventElapsedTime(&milliseconds, epoch_->base, handle_), "reading an event's time");
  return epoch_->seconds + static_cast<double>(milliseconds) * 1e-3;
}

void CudaEvent::RecordOn(cudaStream_t stream, std::shared_ptr<const Epoch> epoch) {
  if (handle_ == nullptr) Check(cudaEventCreate(&handle_), "creating an event");
  Check(cudaEventRecord(handle_, stream), "recording an event");
  epoch_ = std::move(epoch);
  recorder_ = Recorder::kStream;
}

void CudaEvent::RecordOnHost(Counter* counter, uint32_t count) {
  counter_ = counter;
  count_ = count;
  recorder_ = Recorder::kHost;
}

}  // namespace lazytrain::cuda
