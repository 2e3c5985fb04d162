// A lane whose work the GPU does: kernels or copies in a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>

#include "device/cuda/cuda_lane_context.h"
#include "device/cuda/shared_state.h"
#include "device/device.h"

namespace lazytrain::cuda {

class StreamLane final : public Lane {
 public:
  // `priority`: CUDA's, lower is more urgent. `name`: for profilers.
  StreamLane(SharedState& shared, int priority, std::string name,
             std::function<void(StreamLane*)> on_end);
  ~StreamLane() override;

  void Wait(const Event& event) override;
  void Record(Event& event) override;
  void Run(std::function<void(LaneContext&)> work, const Demand& demand) override;
  void Copy(void* target, const void* source, int64_t bytes, const Demand& demand) override;

  void Synchronize();

 private:
  SharedState& shared_;
  std::string name_;
  cudaStream_t stream_;
  CudaLaneContext context_;
  std::function<void(StreamLane*)> on_end_;
};

}  // namespace lazytrain::cuda
