#include "device/cuda/gpu_facts.h"

#include <cuda_runtime_api.h>

#include "device/cuda/cuda_error.h"

namespace lazytrain::cuda {
namespace {

int Attribute(cudaDeviceAttr attribute, int device) {
  int value = 0;
  Check(cudaDeviceGetAttribute(&value, attribute, device), "reading what the GPU has");
  return value;
}

}  // namespace

GpuFacts ReadGpuFacts(int device) {
  GpuFacts facts;
  facts.multiprocessors = Attribute(cudaDevAttrMultiProcessorCount, device);
  facts.architecture = Attribute(cudaDevAttrComputeCapabilityMajor, device) * 10 +
                       Attribute(cudaDevAttrComputeCapabilityMinor, device);
  facts.shared_a_block = Attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return facts;
}

}  // namespace lazytrain::cuda
