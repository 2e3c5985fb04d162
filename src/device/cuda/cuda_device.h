// NVIDIA GPUs: the arena is one allocation, lanes are streams or threads of the host.
#pragma once

#include <memory>

#include "device/device.h"

namespace lazytrain::cuda {

struct CudaDeviceOptions {
  int index = 0;
  // The arena holds NaN until it is written.
  bool poison = false;
};

// Whether there is a GPU and a driver at all.
bool HasCudaDevice();

// Throws Error where there is no such GPU, or its driver or generation is too old for this build.
std::unique_ptr<Device> MakeCudaDevice(const CudaDeviceOptions& options);

}  // namespace lazytrain::cuda
