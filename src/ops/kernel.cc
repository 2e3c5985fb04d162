#include "ops/kernel.h"

#include "core/error.h"
#include "ops/cpu/kernels.h"
#ifdef LAZYTRAIN_HAS_CUDA
#include "ops/cuda/kernels.h"
#endif

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

int64_t KernelTable::WorkspaceBytes(const Op& op, Direction direction,
                                    const RowCounts& capacity) const {
  const auto found = kernels_.find(op.type());
  const bool own = found != kernels_.end() && found->second.workspace != nullptr;
  return own ? found->second.workspace(op, direction, capacity)
             : op.WorkspaceBytes(direction, capacity);
}

int64_t WorkspaceBytes(const KernelTable* kernels, const Op& op, Direction direction,
                       const RowCounts& capacity) {
  return kernels == nullptr ? op.WorkspaceBytes(direction, capacity)
                            : kernels->WorkspaceBytes(op, direction, capacity);
}

const KernelTable& KernelsFor(const Device& device) {
  if (device.backend() == "cpu") return cpu::Kernels();
#ifdef LAZYTRAIN_HAS_CUDA
  if (device.backend() == "cuda") return cuda::Kernels();
#endif
  throw InternalError("no kernels for the backend '{}'", device.backend());
}

}  // namespace lazytrain
