#include "device/cpu/guarded_block.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "core/units.h"

namespace lazytrain {
namespace {

// All ones is a NaN in every floating-point type here, and -1 as an integer.
constexpr int kPoison = 0xff;

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
  Discard(0, bytes_);
}

GuardedBlock::~GuardedBlock() { munmap(mapping_, static_cast<size_t>(mapped_)); }

void GuardedBlock::Discard(int64_t offset, int64_t bytes) {
  if (poison_) std::memset(base_ + offset, kPoison, static_cast<size_t>(bytes));
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
