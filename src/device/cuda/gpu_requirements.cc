#include "device/cuda/gpu_requirements.h"

#include "core/units.h"

namespace lazytrain::cuda {

std::string VersionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

void CheckVersions(int driver, int runtime) {
  if (driver == 0) {
    throw RunError(
        "there is no NVIDIA driver on this machine; install driver 580 or newer, or use the device "
        "cpu, the virtual accelerator");
  }
  if (driver / 1000 < runtime / 1000) {
    throw RunError(
        "the NVIDIA driver is for CUDA {} and this program for CUDA {}; install driver 580 or "
        "newer",
        VersionText(driver), VersionText(runtime));
  }
}

void CheckIndex(int index, int count) {
  if (count == 0) {
    throw RunError(
        "the NVIDIA driver finds no GPU; check nvidia-smi and CUDA_VISIBLE_DEVICES, or use the "
        "device cpu, the virtual accelerator");
  }
  if (index >= count) {
    throw UsageError("device 'cuda:{}': there {} counted from 0", index,
                     count == 1 ? "is 1 GPU," : fmt::format("are {} GPUs,", count));
  }
}

Error WrongArchitecture(std::string_view built, int architecture) {
  if (architecture < kOldestArchitecture) {
    return RunError(
        "the GPU is an sm_{}, which is too old; use one of sm_{} (A100, RTX 30) or newer, or the "
        "device cpu, the virtual accelerator",
        architecture, kOldestArchitecture);
  }
  return RunError(
      "this program was built for sm_{} and the GPU is an sm_{}; build it with "
      "-DLAZYTRAIN_CUDA_ARCH={}{}",
      built, architecture, architecture, architecture == 90 ? "a" : "");
}

Error NoMemory(int64_t needed, int64_t free, int64_t total, int64_t others) {
  // What the driver itself holds on a GPU that nobody uses.
  constexpr int64_t kNobody = int64_t{1} << 30;
  if (others > kNobody) {
    return RunError(
        "the plan needs {} of GPU memory and {} of {} are free: other programs hold {}; end them "
        "(nvidia-smi lists them) or lower memory.device_memory_gb",
        FormatBytes(needed), FormatBytes(free), FormatBytes(total), FormatBytes(others));
  }
  return RunError(
      "the plan needs {} of GPU memory and {} of {} are free; lower memory.device_memory_gb",
      FormatBytes(needed), FormatBytes(free), FormatBytes(total));
}

std::string_view RemedyFor(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return "end what else uses the GPU (nvidia-smi lists it) or lower memory.device_memory_gb";
    case cudaErrorDevicesUnavailable:
      return "another program has the GPU to itself; end it (nvidia-smi lists it) or choose "
             "another "
             "GPU";
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorUnsupportedPtxVersion:
      return "install driver 580 or newer and restart the machine";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidKernelImage:
      return "build this program with -DLAZYTRAIN_CUDA_ARCH for this GPU";
    case cudaErrorSystemNotReady:
      return "start NVIDIA's fabric manager (systemctl start nvidia-fabricmanager)";
    case cudaErrorECCUncorrectable:
    case cudaErrorHardwareStackError:
      return "the GPU is broken or needs a reset; use another one";
    case cudaErrorLaunchTimeout:
      return "use a GPU that drives no display";
    default:
      return "if nothing else uses the GPU, please report it";
  }
}

}  // namespace lazytrain::cuda
