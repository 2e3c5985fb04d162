#include "ops/unit_kernels.h"

#include "core/error.h"
#include "core/units.h"
#include "ops/cpu/unit_kernels.h"
#ifdef LAZYTRAIN_HAS_CUDA
#include "ops/cuda/unit_kernels.h"
#endif

namespace lazytrain {

int64_t PartialSumCount(const std::vector<UnitParameter>& parameters) {
  int64_t count = 0;
  for (const UnitParameter& parameter : parameters) {
    count += CeilDiv(parameter.elements, kNormChunk);
  }
  return count;
}

const UnitKernels& HostUnitKernels() { return cpu::HostKernels(); }

const UnitKernels& UnitKernelsFor(const Device& device) {
  if (device.backend() == "cpu") return cpu::HostKernels();
#ifdef LAZYTRAIN_HAS_CUDA
  if (device.backend() == "cuda") return cuda::DeviceKernels();
#endif
  throw InternalError("no unit kernels for the backend '{}'", device.backend());
}

}  // namespace lazytrain
