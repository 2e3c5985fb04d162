#include "train/device_choice.h"

#include <charconv>

#include "core/error.h"
#include "device/cpu/virtual_accelerator.h"
#ifdef LAZYTRAIN_HAS_CUDA
#include "device/cuda/cuda_device.h"
#endif

namespace lazytrain {
namespace {

std::unique_ptr<Device> OpenVirtualAccelerator(bool poison, bool throttle,
                                               double host_bytes_per_second) {
  VirtualAcceleratorOptions options;
  options.poison = poison;
  options.clock = throttle ? ClockMode::kThrottle : ClockMode::kReal;
  options.host_bytes_per_second = host_bytes_per_second;
  return MakeVirtualAccelerator(options);
}

bool NamesCuda(const std::string& name) { return name == "cuda" || name.starts_with("cuda:"); }

// The number behind "cuda:"; 0 of "cuda".
[[maybe_unused]] int CudaIndex(const std::string& name) {
  if (name == "cuda") return 0;
  int index = -1;
  const char* begin = name.data() + std::string_view("cuda:").size();
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(begin, end, index);
  if (error != std::errc() || stop != end || index < 0) {
    throw UsageError("device '{}': write cuda:0 for the first GPU", name);
  }
  return index;
}

}  // namespace

std::unique_ptr<Device> OpenDevice(const std::string& name, bool poison, bool throttle,
                                   double host_bytes_per_second) {
  if (name != "auto" && name != "cpu" && !NamesCuda(name)) {
    throw UsageError("device '{}': choose auto, cpu (the virtual accelerator) or cuda:0", name);
  }
#ifdef LAZYTRAIN_HAS_CUDA
  if (NamesCuda(name) && throttle) {
    throw UsageError("device '{}': hardware.throttle is for the device cpu; take it away", name);
  }
  if (NamesCuda(name) || (name == "auto" && !throttle && cuda::HasCudaDevice())) {
    return cuda::MakeCudaDevice({name == "auto" ? 0 : CudaIndex(name), poison});
  }
#else
  if (NamesCuda(name)) {
    throw UsageError(
        "device '{}': this build has no CUDA backend; use cpu, the virtual accelerator", name);
  }
#endif
  return OpenVirtualAccelerator(poison, throttle, host_bytes_per_second);
}

}  // namespace lazytrain
