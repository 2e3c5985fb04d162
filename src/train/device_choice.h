// From configuration to a device.
#pragma once

#include <memory>
#include <string>

#include "device/device.h"

namespace lazytrain {

// `name`: "auto" or "cpu". Throws Error for a device that this build cannot drive.
std::unique_ptr<Device> OpenDevice(const std::string& name, bool poison);

}  // namespace lazytrain
