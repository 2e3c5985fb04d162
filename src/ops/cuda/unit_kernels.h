// Unit kernels of NVIDIA GPUs: the bits of the host's (ops/cpu/unit_kernels.h), except that a
// partial sum adds its float64 terms in another order.
#pragma once

#include "ops/unit_kernels.h"

namespace lazytrain::cuda {

const UnitKernels& DeviceKernels();

}  // namespace lazytrain::cuda
