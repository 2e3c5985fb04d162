#include "ops/kernel.h"

#include "core/error.h"
#include "ops/cpu/kernels.h"

namespace lazytrain {

KernelFunction KernelTable::Find(const Op& op, Direction direction) const {
  const auto found = kernels_.find(op.type());
  const KernelFunction function =
      found == kernels_.end()
          ? nullptr
          : (direction == Direction::kForward ? found->second.forward : found->second.backward);
  if (function == nullptr) {
    throw RunError(
        "the op '{}' cannot run on the {} backend ({}): this model can be planned and estimated, "
        "not trained; choose a model without it",
        op.type(), backend_, direction == Direction::kForward ? "forward" : "backward");
  }
  return function;
}

const KernelTable& KernelsFor(const Device& device) {
  if (device.backend() == "cpu") return cpu::Kernels();
  throw InternalError("no kernels for the backend '{}'", device.backend());
}

}  // namespace lazytrain
