// All memory of a run, allocated once: the device arena of exactly the planned size, the host
// memory that programs own, and the store of weights, gradients and optimizer states.
#pragma once

#include <memory>
#include <span>

#include "device/device.h"
#include "program/program.h"

namespace lazytrain {

class RunMemory {
 public:
  // Large enough for each of the programs.
  RunMemory(Device& device, std::span<const Program* const> programs);

  std::byte* Address(const Buffer& buffer) const {
    return blocks_[buffer.space]->base() + buffer.offset;
  }
  MemoryBlock& block(int space) const { return *blocks_[space]; }
  int64_t bytes(int space) const { return blocks_[space]->bytes(); }

 private:
  std::unique_ptr<MemoryBlock> blocks_[kSpaces];
};

}  // namespace lazytrain
