// Where CUDA kernels are enqueued.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <typeindex>

#include "device/cuda/device_fault.h"
#include "device/cuda/gpu_facts.h"
#include "device/device.h"

namespace lazytrain::cuda {

class CudaLaneContext final : public LaneContext {
 public:
  // `fault` lies in pinned memory; it and `choices` outlive the lane.
  CudaLaneContext(cudaStream_t stream, const GpuFacts& gpu, DeviceFault* fault,
                  LibraryChoices* choices)
      : stream_(stream), gpu_(gpu), fault_(fault), choices_(choices) {}

  cudaStream_t stream() const { return stream_; }
  int multiprocessors() const { return gpu_.multiprocessors; }
  const GpuFacts& gpu() const { return gpu_; }
  DeviceFault* fault() const { return fault_; }
  // The device's, which all lanes share: used by the thread that enqueues.
  LibraryChoices& choices() const { return *choices_; }

  // The lane's own T (a library handle with what was learnt for it), made by its first use.
  template <typename T>
  T& Library() {
    std::shared_ptr<void>& library = libraries_[typeid(T)];
    if (library == nullptr) library = std::make_shared<T>();
    return *static_cast<T*>(library.get());
  }

 private:
  cudaStream_t stream_;
  GpuFacts gpu_;
  DeviceFault* fault_;
  LibraryChoices* choices_;
  std::map<std::type_index, std::shared_ptr<void>> libraries_;
};

}  // namespace lazytrain::cuda
