#include "engine/run_memory.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace lazytrain {

RunMemory::RunMemory(Device& device, std::span<const Program* const> programs,
                     std::unique_ptr<MemoryBlock> store) {
  blocks_[kStoreSpace] = std::move(store);
  for (int space = 0; space < kSpaces; ++space) {
    int64_t bytes = 0;
    for (const Program* program : programs) bytes = std::max(bytes, program->peak_bytes[space]);
    if (blocks_[space] != nullptr) {
      if (blocks_[space]->bytes() < bytes) throw InternalError("a store of another model");
      continue;
    }
    blocks_[space] =
        space == kDeviceSpace ? device.AllocateDevice(bytes) : device.AllocateHost(bytes);
  }
}

std::unique_ptr<MemoryBlock> RunMemory::TakeStore() { return std::move(blocks_[kStoreSpace]); }

}  // namespace lazytrain
