// Unit kernels of the host and of the virtual accelerator.
#pragma once

#include "ops/unit_kernels.h"

namespace lazytrain::cpu {

const UnitKernels& HostKernels();

}  // namespace lazytrain::cpu
