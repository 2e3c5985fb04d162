// Device memory as the driver counts it.
#pragma once

#include <cstdint>

namespace lazytrain::cuda {

// Through NVML, opened at run time; where it is missing, through CUDA, which counts other processes
// as well.
class DriverMemory {
 public:
  // To be made before this process uses the GPU: what is taken then is others'.
  explicit DriverMemory(int device);
  ~DriverMemory();
  DriverMemory(const DriverMemory&) = delete;
  DriverMemory& operator=(const DriverMemory&) = delete;

  // What this process took since: its allocations, and what the driver needs for itself.
  int64_t ProcessBytes() const;
  // What was taken before.
  int64_t OthersBytes() const { return before_; }

 private:
  int64_t UsedBytes() const;

  void* library_ = nullptr;
  void* handle_ = nullptr;  // NVML's
  int (*memory_info_)(void*, void*) = nullptr;
  int64_t before_ = 0;
};

}  // namespace lazytrain::cuda
