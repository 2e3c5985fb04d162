// Memory between two pages that cannot be touched.
#pragma once

#include "device/device.h"

namespace lazytrain {

// The end lies flush with its guard page, so the first byte beyond it faults; below the base up to
// a page is slack.
class GuardedBlock final : public MemoryBlock {
 public:
  // `bytes` is rounded up to kAlignment by the caller. Throws Error when there is no memory.
  GuardedBlock(int64_t bytes, bool poison);
  ~GuardedBlock() override;
  GuardedBlock(const GuardedBlock&) = delete;
  GuardedBlock& operator=(const GuardedBlock&) = delete;

  std::byte* base() const override { return base_; }
  int64_t bytes() const override { return bytes_; }
  // With poison; under AddressSanitizer a released range must not be touched at all.
  void Release(int64_t offset, int64_t bytes) override;
  void Claim(int64_t offset, int64_t bytes) override;
  int64_t TouchedBytes() const override;

 private:
  int64_t bytes_;
  bool poison_;
  std::byte* mapping_ = nullptr;
  int64_t mapped_ = 0;
  std::byte* base_ = nullptr;
};

}  // namespace lazytrain
