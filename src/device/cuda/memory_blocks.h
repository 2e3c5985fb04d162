// Memory of the CUDA backend: the device arena, and host memory that copy engines reach.
#pragma once

#include <atomic>
#include <memory>

#include "device/device.h"

namespace lazytrain::cuda {

// One cudaMalloc of exactly the size asked for. `poison`: it holds NaN until it is written.
class DeviceBlock final : public MemoryBlock {
 public:
  // `others`: what other processes held when this one began, for the error's text.
  DeviceBlock(int64_t bytes, bool poison, int64_t others);
  ~DeviceBlock() override;
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;

  std::byte* base() const override { return base_; }
  int64_t bytes() const override { return bytes_; }
  void Release(int64_t /*offset*/, int64_t /*bytes*/) override {}
  void Claim(int64_t /*offset*/, int64_t /*bytes*/) override {}
  int64_t TouchedBytes() const override { return bytes_; }

 private:
  int64_t bytes_;
  std::byte* base_ = nullptr;
};

// Mapped, touched by `threads` threads, then pinned: several times as fast as cudaHostAlloc, which
// touches by one.
class PinnedBlock final : public MemoryBlock {
 public:
  // `pinned`: a sum of bytes that this block's are part of while it lives.
  PinnedBlock(int64_t bytes, int threads, std::shared_ptr<std::atomic<int64_t>> pinned);
  ~PinnedBlock() override;
  PinnedBlock(const PinnedBlock&) = delete;
  PinnedBlock& operator=(const PinnedBlock&) = delete;

  std::byte* base() const override { return base_; }
  int64_t bytes() const override { return bytes_; }
  void Release(int64_t /*offset*/, int64_t /*bytes*/) override {}
  void Claim(int64_t /*offset*/, int64_t /*bytes*/) override {}
  int64_t TouchedBytes() const override { return bytes_; }

 private:
  int64_t bytes_;
  std::byte* base_ = nullptr;
  std::shared_ptr<std::atomic<int64_t>> pinned_;
};

}  // namespace lazytrain::cuda
