#include "device/cuda/cuda_error.h"

#include "core/error.h"

namespace lazytrain::cuda {

void Check(cudaError_t status, std::string_view what) {
  if (status == cudaSuccess) return;
  throw RunError(
      "{}: the GPU's driver says '{}' ({}); if nothing else uses the GPU, please report it", what,
      cudaGetErrorString(status), cudaGetErrorName(status));
}

void CheckLaunch(std::string_view kernel) { Check(cudaGetLastError(), kernel); }

void FailInternally(const std::string& what) { throw InternalError("{}", what); }

void RefuseSize(std::string_view what, int64_t size, int64_t limit) {
  throw RunError("{} {} cannot run on the cuda backend; it takes up to {}", what, size, limit);
}

}  // namespace lazytrain::cuda
