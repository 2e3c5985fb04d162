#include "device/cuda/cuda_error.h"

#include "core/error.h"
#include "core/units.h"
#include "device/cuda/gpu_requirements.h"

namespace lazytrain::cuda {

void Check(cudaError_t status, std::string_view what) {
  if (status == cudaSuccess) return;
  throw RunError("{}: the GPU's driver says '{}' ({}); {}", what, cudaGetErrorString(status),
                 cudaGetErrorName(status), RemedyFor(status));
}

void CheckLaunch(std::string_view kernel) { Check(cudaGetLastError(), kernel); }

void FailInternally(const std::string& what) { throw InternalError("{}", what); }

void RefuseSize(std::string_view what, int64_t size, int64_t limit) {
  throw RunError("{} {} cannot run on the cuda backend; it takes up to {}", what, size, limit);
}

void RefuseShared(std::string_view what, int64_t bytes, int64_t there) {
  throw RunError(
      "{} needs {} KB of shared memory a block and this GPU has {}; use a GPU with more (A100, "
      "H100), or the device cpu",
      what, CeilDiv(bytes, 1024), there / 1024);
}

}  // namespace lazytrain::cuda
