#include "engine/run_memory.h"

#include <algorithm>

namespace lazytrain {

RunMemory::RunMemory(Device& device, std::span<const Program* const> programs) {
  for (int space = 0; space < kSpaces; ++space) {
    int64_t bytes = 0;
    for (const Program* program : programs) bytes = std::max(bytes, program->peak_bytes[space]);
    blocks_[space] =
        space == kDeviceSpace ? device.AllocateDevice(bytes) : device.AllocateHost(bytes);
  }
}

}  // namespace lazytrain
