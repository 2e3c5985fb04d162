// How a kernel says what it cannot throw.
#pragma once

#include "device/cuda/device_fault.h"

namespace lazytrain::cuda {

__device__ inline void Report(Fault kind, int64_t value, int64_t limit, DeviceFault* fault) {
  if (atomicCAS(&fault->fault, 0, static_cast<int32_t>(kind)) != 0) return;
  fault->value = value;
  fault->limit = limit;
}

}  // namespace lazytrain::cuda
