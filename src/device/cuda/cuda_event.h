// Events of the CUDA backend: recorded by a stream or by a host thread.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "device/cuda/shared_state.h"
#include "device/device.h"

namespace lazytrain::cuda {

class CudaEvent final : public Event {
 public:
  enum class Recorder { kNone, kStream, kHost };

  ~CudaEvent() override;
  double seconds() const override;

  // By a stream: `handle` passes with its work.
  void RecordOn(cudaStream_t stream, std::shared_ptr<const Epoch> epoch);
  // By a host thread, which will set `counter` to `count` and then call Pass.
  void RecordOnHost(Counter* counter, uint32_t count);
  void Pass(double seconds) { host_seconds_ = seconds; }
  void Reset() { recorder_ = Recorder::kNone; }

  Recorder recorder() const { return recorder_; }
  cudaEvent_t handle() const { return handle_; }
  Counter* counter() const { return counter_; }
  uint32_t count() const { return count_; }

 private:
  Recorder recorder_ = Recorder::kNone;
  cudaEvent_t handle_ = nullptr;  // made by the first stream that records
  std::shared_ptr<const Epoch> epoch_;
  Counter* counter_ = nullptr;
  uint32_t count_ = 0;
  double host_seconds_ = 0;
};

}  // namespace lazytrain::cuda
