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
  // Large enough for each of the programs. `store`: of another run of the same model and states,
  // contents included; absent: a new one.
  RunMemory(Device& device, std::span<const Program* const> programs,
            std::unique_ptr<MemoryBlock> store = nullptr);

  // Gives the store away; its addresses are invalid from then on.
  std::unique_ptr<MemoryBlock> TakeStore();

  std::byte* Address(const Buffer& buffer) const {
    return blocks_[buffer.space]->base() + buffer.offset;
  }
  MemoryBlock& block(int space) const { return *blocks_[space]; }
  int64_t bytes(int space) const { return blocks_[space]->bytes(); }

 private:
  std::unique_ptr<MemoryBlock> blocks_[kSpaces];
};

}  // namespace lazytrain
