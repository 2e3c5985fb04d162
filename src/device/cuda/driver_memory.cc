#include "device/cuda/driver_memory.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>

namespace lazytrain::cuda {
namespace {

// nvmlMemory_t of nvml.h.
struct NvmlMemory {
  unsigned long long total = 0;
  unsigned long long free = 0;
  unsigned long long used = 0;
};

constexpr int kSuccess = 0;  // NVML_SUCCESS

}  // namespace

DriverMemory::DriverMemory(int device) {
  library_ = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) return;
  const auto init = reinterpret_cast<int (*)()>(dlsym(library_, "nvmlInit_v2"));
  const auto by_bus = reinterpret_cast<int (*)(const char*, void**)>(
      dlsym(library_, "nvmlDeviceGetHandleByPciBusId_v2"));
  memory_info_ =
      reinterpret_cast<int (*)(void*, void*)>(dlsym(library_, "nvmlDeviceGetMemoryInfo"));
  if (init == nullptr || by_bus == nullptr || memory_info_ == nullptr || init() != kSuccess) return;
  char bus[32] = {};
  if (cudaDeviceGetPCIBusId(bus, sizeof(bus), device) != cudaSuccess) {
    cudaGetLastError();
    return;
  }
  if (by_bus(bus, &handle_) != kSuccess) handle_ = nullptr;
  if (handle_ != nullptr) before_ = UsedBytes();
}

DriverMemory::~DriverMemory() {
  if (library_ != nullptr) dlclose(library_);
}

int64_t DriverMemory::UsedBytes() const {
  NvmlMemory memory;
  if (handle_ != nullptr && memory_info_(handle_, &memory) == kSuccess) {
    return static_cast<int64_t>(memory.used);
  }
  size_t free = 0;
  size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return 0;
  return static_cast<int64_t>(total - free);
}

int64_t DriverMemory::ProcessBytes() const { return std::max<int64_t>(0, UsedBytes() - before_); }

}  // namespace lazytrain::cuda
