// From configuration to a device.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"

namespace lazytrain {

// `name`: "auto" (the first GPU where this build and this machine have CUDA, else the virtual
// accelerator), "cpu" (the virtual accelerator), "cuda" or "cuda:N". Throws Error for a device that
// this build cannot drive or that is not there. `poison`: memory holds NaN until it is written.
// `throttle`, on the virtual accelerator only: work takes at least as long as its demand says,
// `host_bytes_per_second` being shared by all of it.
std::unique_ptr<Device> OpenDevice(const std::string& name, bool poison, bool throttle = false,
                                   double host_bytes_per_second = 0);

}  // namespace lazytrain
