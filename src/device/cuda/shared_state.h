// What the lanes, events and blocks of one CUDA device share.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

#include "device/cuda/device_fault.h"
#include "device/cuda/gpu_facts.h"
#include "device/device.h"

namespace lazytrain::cuda {

// Pinned host memory for one object that kernels or copy engines also see.
template <typename T>
class Pinned {
 public:
  Pinned();
  ~Pinned() { cudaFreeHost(object_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  T* get() const { return object_; }

 private:
  T* object_ = nullptr;
};

// A counter in pinned memory that only grows, alone on its cache line: streams and host threads
// wait for each other by it (SharedState::WaitFor, WriteTo).
struct alignas(64) Counter {
  uint32_t value = 0;

  void Store(uint32_t count) {
    std::atomic_ref<uint32_t>(value).store(count, std::memory_order_release);
  }
  // Counts wrap: at most 2^31 waits may lie between the two.
  bool Reached(uint32_t count) {
    const uint32_t now = std::atomic_ref<uint32_t>(value).load(std::memory_order_acquire);
    return static_cast<int32_t>(now - count) >= 0;
  }
};

// A moment that both clocks know: the GPU measures from `base`, which passed at `seconds` of the
// host's. Renewed at every Synchronize, since CUDA tells distances as float32 milliseconds.
struct Epoch {
  Epoch() = default;
  ~Epoch();
  Epoch(const Epoch&) = delete;
  Epoch& operator=(const Epoch&) = delete;

  cudaEvent_t base = nullptr;
  double seconds = 0;
};

class SharedState {
 public:
  // Makes the device current for this thread.
  explicit SharedState(int device);
  ~SharedState();
  SharedState(const SharedState&) = delete;
  SharedState& operator=(const SharedState&) = delete;

  // Seconds of the host's clock since the device was opened.
  double Now() const;
  // The epoch of events recorded from now on, until EndEpoch.
  std::shared_ptr<const Epoch> epoch();
  void EndEpoch() { epoch_.reset(); }

  // The stream waits until the counter has reached `count` / sets it, both in order of its work.
  // Unlike cudaStreamWaitEvent, which is empty for an event that is not recorded yet, these wait
  // for what a host thread will do later, and no host thread needs the driver for its part.
  void WaitFor(cudaStream_t stream, Counter& counter, uint32_t count);
  void WriteTo(cudaStream_t stream, Counter& counter, uint32_t count);

  // Runs `action` unless something failed before; keeps what it throws.
  void Attempt(const std::function<void()>& action);
  void Fail(std::exception_ptr failure);
  bool failed() const { return failed_; }
  // After an error of the driver nothing enqueued will finish: host threads stop waiting.
  void Break() { broken_ = true; }
  bool broken() const { return broken_; }
  // Rethrows the first failure since the last call.
  void Rethrow();

  DeviceFault* fault() const { return fault_.get(); }
  const GpuFacts& gpu() const { return gpu_; }
  LibraryChoices& choices() { return choices_; }
  const LibraryChoices& choices() const { return choices_; }

 private:
  GpuFacts gpu_;
  cudaStream_t clock_stream_ = nullptr;
  std::chrono::steady_clock::time_point opened_ = std::chrono::steady_clock::now();
  std::shared_ptr<const Epoch> epoch_;
  CUresult (*wait_value_)(CUstream, CUdeviceptr, cuuint32_t, unsigned) = nullptr;
  CUresult (*write_value_)(CUstream, CUdeviceptr, cuuint32_t, unsigned) = nullptr;
  Pinned<DeviceFault> fault_;
  LibraryChoices choices_;

  std::atomic<bool> failed_{false};
  std::atomic<bool> broken_{false};
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

template <typename T>
Pinned<T>::Pinned() {
  void* memory = nullptr;
  if (cudaHostAlloc(&memory, sizeof(T), cudaHostAllocPortable | cudaHostAllocMapped) !=
      cudaSuccess) {
    throw std::bad_alloc();
  }
  object_ = new (memory) T();
}

}  // namespace lazytrain::cuda
