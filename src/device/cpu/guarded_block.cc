#include "device/cpu/guarded_block.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include "core/error.h"
#include "core/units.h"

namespace lazytrain {
namespace {

// All ones is a NaN in every floating-point type here, and -1 as an integer.
constexpr int kPoison = 0xff;

#if defined(__SANITIZE_ADDRESS__)
void ForbidTouch(const void* begin, int64_t bytes) {
  __asan_poison_memory_region(begin, static_cast<size_t>(bytes));
}
void AllowTouch(const void* begin, int64_t bytes) {
  __asan_unpoison_memory_region(begin, static_cast<size_t>(bytes));
}
#else
void ForbidTouch(const void*, int64_t) {}
void AllowTouch(const void*, int64_t) {}
#endif

}  // namespace

GuardedBlock::GuardedBlock(int64_t bytes, bool poison) : bytes_(bytes), poison_(poison) {
  if (bytes < 0 || bytes % kAlignment != 0) {
    throw InternalError("a memory block of {} bytes", bytes);
  }
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t inner = RoundUp(bytes, page);
  mapped_ = inner + 2 * page;
  void* mapping = mmap(nullptr, static_cast<size_t>(mapped_), PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    throw RunError("cannot map {}: {}; use less memory or close other programs", FormatBytes(bytes),
                   std::strerror(errno));
  }
  mapping_ = static_cast<std::byte*>(mapping);
  if (inner > 0 &&
      mprotect(mapping_ + page, static_cast<size_t>(inner), PROT_READ | PROT_WRITE) != 0) {
    const int error = errno;
    munmap(mapping_, static_cast<size_t>(mapped_));
    throw RunError("cannot get {} of memory: {}; use less memory or close other programs",
                   FormatBytes(bytes), std::strerror(error));
  }
  base_ = mapping_ + page + (inner - bytes);
  if (poison_) std::memset(base_, kPoison, static_cast<size_t>(bytes_));
}

GuardedBlock::~GuardedBlock() {
  AllowTouch(base_, bytes_);
  munmap(mapping_, static_cast<size_t>(mapped_));
}

void GuardedBlock::Release(int64_t offset, int64_t bytes) {
  if (!poison_) return;
  AllowTouch(base_ + offset, bytes);
  std::memset(base_ + offset, kPoison, static_cast<size_t>(bytes));
  ForbidTouch(base_ + offset, bytes);
}

void GuardedBlock::Claim(int64_t offset, int64_t bytes) {
  if (!poison_) return;
  AllowTouch(base_ + offset, bytes);
  const std::byte* begin = base_ + offset;
  const std::byte* touched = std::find_if(begin, begin + bytes, [](std::byte value) {
    return value != static_cast<std::byte>(kPoison);
  });
  if (touched != begin + bytes) {
    throw InternalError("memory at byte {} of a block of {} was written to while it was nobody's",
                        touched - base_, bytes_);
  }
}

int64_t GuardedBlock::TouchedBytes() const {
  const int64_t page = sysconf(_SC_PAGESIZE);
  const int64_t inner = mapped_ - 2 * page;
  std::vector<unsigned char> present(static_cast<size_t>(inner / page));
  if (inner == 0 || mincore(mapping_ + page, static_cast<size_t>(inner), present.data()) != 0) {
    return bytes_;
  }
  const auto pages = std::count_if(present.begin(), present.end(), [](auto p) { return p & 1; });
  return std::min(pages * page, bytes_);
}

}  // namespace lazytrain
