// The virtual accelerator: a device made of host memory and threads. It runs everything a GPU runs,
// in the same order on the same lanes, so any machine exercises streaming, offload and recompute;
// and it is the reference that other backends are compared with.
#pragma once

#include <memory>

#include "device/device.h"

namespace lazytrain {

enum class ClockMode {
  kReal,      // work takes the time it takes
  kThrottle,  // and at least its Demand, host memory shared: a slow machine on a fast one
  kVirtual,   // work takes the time it takes, but events tell the time that the demands add up to
};

struct VirtualAcceleratorOptions {
  int threads = 0;  // of the compute lane and of the host lane each; 0: the cores there are
  ClockMode clock = ClockMode::kReal;
  double host_bytes_per_second = 0;  // for kThrottle and kVirtual; 0: no limit
  // Ranges without a value hold NaN, so that whoever reads one is found out by the result.
  bool poison = false;
};

std::unique_ptr<Device> MakeVirtualAccelerator(const VirtualAcceleratorOptions& options);

}  // namespace lazytrain
