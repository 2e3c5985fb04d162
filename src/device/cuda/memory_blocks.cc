#include "device/cuda/memory_blocks.h"

#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/thread_pool.h"
#include "core/units.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/gpu_requirements.h"

namespace lazytrain::cuda {
namespace {

// All ones is a NaN in every floating-point type here.
constexpr int kPoison = 0xff;

}  // namespace

DeviceBlock::DeviceBlock(int64_t bytes, bool poison, int64_t others) : bytes_(bytes) {
  if (bytes == 0) return;
  void* memory = nullptr;
  if (cudaMalloc(&memory, static_cast<size_t>(bytes)) != cudaSuccess) {
    cudaGetLastError();  // not sticky: the next call shall not report it again
    size_t free = 0;
    size_t total = 0;
    cudaMemGetInfo(&free, &total);
    throw NoMemory(bytes, static_cast<int64_t>(free), static_cast<int64_t>(total), others);
  }
  base_ = static_cast<std::byte*>(memory);
  if (!poison) return;
  Check(cudaMemset(base_, kPoison, static_cast<size_t>(bytes)), "filling memory");
  // No lane's stream waits for what others have enqueued.
  Check(cudaDeviceSynchronize(), "filling memory");
}

DeviceBlock::~DeviceBlock() { cudaFree(base_); }

PinnedBlock::PinnedBlock(int64_t bytes, int threads, std::shared_ptr<std::atomic<int64_t>> pinned)
    : bytes_(bytes), pinned_(std::move(pinned)) {
  if (bytes == 0) return;
  const auto size = static_cast<size_t>(bytes);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw RunError("cannot map {} of host memory: {}; use less memory or close other programs",
                   FormatBytes(bytes), std::strerror(errno));
  }
  base_ = static_cast<std::byte*>(memory);
  madvise(memory, size, MADV_HUGEPAGE);  // fewer pages to pin; a wish only
  constexpr int64_t kPart = int64_t{1} << 28;
  ThreadPool pool(threads);
  pool.Run(CeilDiv(bytes, kPart), [&](int64_t part) {
    const int64_t begin = part * kPart;
    std::memset(base_ + begin, 0, static_cast<size_t>(std::min(kPart, bytes - begin)));
  });
  const cudaError_t status = cudaHostRegister(memory, size, cudaHostRegisterPortable);
  if (status == cudaSuccess) {
    *pinned_ += bytes;
    return;
  }
  cudaGetLastError();
  munmap(memory, size);
  throw RunError(
      "cannot pin {} of host memory: {}; raise the limit of locked memory (ulimit -l unlimited), "
      "or "
      "use less of it (memory.host_memory_gb)",
      FormatBytes(bytes), cudaGetErrorString(status));
}

PinnedBlock::~PinnedBlock() {
  if (base_ == nullptr) return;
  cudaHostUnregister(base_);
  *pinned_ -= bytes_;
  munmap(base_, static_cast<size_t>(bytes_));
}

}  // namespace lazytrain::cuda
