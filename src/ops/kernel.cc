#include "ops/kernel.h"

#include "core/error.h"
#include "ops/cpu/kernels.h"

namespace lazytrain {

bool KernelTable::Has(const Op& op, Direction direction) const {
  const auto found = kernels_.find(op.type());
  if (found == kernels_.end()) return false;
  const Kernel& kernel = found->second;
  return (direction == Direction::kForward ? kernel.forward : kernel.backward) != nullptr;
}

KernelFunction KernelTable::Find(const Op& op, Direction direction) const {
  if (!Has(op, direction)) {
    throw RunError(
        "the op '{}' cannot run on the {} backend ({}): this model can be planned and estimated, "
        "not trained; choose a model without it",
        op.type(), backend_, direction == Direction::kForward ? "forward" : "backward");
  }
  const Kernel& kernel = kernels_.find(op.type())->second;
  return direction == Direction::kForward ? kernel.forward : kernel.backward;
}

const KernelTable& KernelsFor(const Device& device) {
  if (device.backend() == "cpu") return cpu::Kernels();
  throw InternalError("no kernels for the backend '{}'", device.backend());
}

}  // namespace lazytrain
