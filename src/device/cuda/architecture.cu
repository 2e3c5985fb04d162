#include <cuda_runtime.h>

#include "device/cuda/architecture.h"

namespace lazytrain::cuda {
namespace {

__global__ void ProbeKernel() {}

}  // namespace

std::string_view BuiltArchitecture() { return LAZYTRAIN_CUDA_ARCH; }

bool BuiltForHopper() { return BuiltArchitecture().find("90a") != std::string_view::npos; }

bool KernelsLoad() {
  cudaFuncAttributes attributes;
  const bool loads = cudaFuncGetAttributes(&attributes, ProbeKernel) == cudaSuccess;
  cudaGetLastError();
  return loads;
}

}  // namespace lazytrain::cuda
