// Copies from global to shared memory that run while the thread goes on (cp.async, sm_80 and
// newer).
#pragma once

#include <cstdint>

namespace lazytrain::cuda {

__device__ inline uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Starts copying 16 bytes; both addresses are multiples of 16.
__device__ inline void StartCopy(uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(to), "l"(from) : "memory");
}

// What this thread has started since the last call is a group.
__device__ inline void EndCopyGroup() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

// Until all but the last `kPending` groups of this thread are there, for it alone.
template <int kPending>
__device__ inline void AwaitCopyGroups() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending) : "memory");
}

}  // namespace lazytrain::cuda
