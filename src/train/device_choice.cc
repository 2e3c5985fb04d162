#include "train/device_choice.h"

#include "core/error.h"
#include "device/cpu/virtual_accelerator.h"

namespace lazytrain {

std::unique_ptr<Device> OpenDevice(const std::string& name, bool poison, bool throttle,
                                   double host_bytes_per_second) {
  if (name != "auto" && name != "cpu") {
    throw UsageError(
        "device '{}': this build has no CUDA backend; use cpu, the virtual accelerator", name);
  }
  VirtualAcceleratorOptions options;
  options.poison = poison;
  options.clock = throttle ? ClockMode::kThrottle : ClockMode::kReal;
  options.host_bytes_per_second = host_bytes_per_second;
  return MakeVirtualAccelerator(options);
}

}  // namespace lazytrain
