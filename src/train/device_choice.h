// From configuration to a device.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"

namespace lazytrain {

// `name`: "auto" or "cpu". Throws Error for a device that this build cannot drive. `throttle`: work
// takes at least as long as its demand says, `host_bytes_per_second` being shared by all of it.
std::unique_ptr<Device> OpenDevice(const std::string& name, bool poison, bool throttle = false,
                                   double host_bytes_per_second = 0);

}  // namespace lazytrain
