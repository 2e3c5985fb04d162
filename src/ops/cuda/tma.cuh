// Hopper's tensor copies from global to shared memory, and the barriers by which those who issue
// them and those who use what they bring wait for each other.
//
// A barrier's phase ends when everybody it counts has arrived and the bytes it was told to expect
// are there; phases are told apart by their parity, the first being 0.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "ops/cuda/attention_tiles.cuh"

namespace lazytrain::cuda::tma {

struct Barrier {
  uint64_t word;
};

// By one thread; the others may use the barrier behind FenceBarriers and a __syncthreads.
__device__ inline void Init(Barrier& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(SharedAddress(&barrier)),
               "r"(arrivals));
}
__device__ inline void FenceBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}

__device__ inline void Arrive(Barrier& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(SharedAddress(&barrier))
               : "memory");
}
// Arrives, and lets the phase last until so many bytes more are there.
__device__ inline void ArriveExpecting(Barrier& barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(SharedAddress(&barrier)),
      "r"(bytes)
      : "memory");
}
// Of a warp each thread arrives for itself: one for all would do behind a __syncwarp and is no
// faster, but race checkers do not follow it.
inline constexpr int kWarpArrivals = 32;

// Until the phase of this parity has ended.
__device__ inline void Await(Barrier& barrier, int parity) {
  uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
        "selp.u32 %0, 1, 0, p;}\n"
        : "=r"(done)
        : "r"(SharedAddress(&barrier)), "r"(parity)
        : "memory");
  }
}

// A ring of kStages buffers: where number `index` lies, and the parity of its phase.
template <int kStages>
struct Turn {
  int stage;
  int parity;

  __device__ explicit Turn(int index) : stage(index % kStages), parity(index / kStages % 2) {}
};

// Starts copying kRows rows of a head, from token `first` on, whole tiles of 64 rows; what lies
// outside the matrix (channels behind the head's, rows behind the last token) becomes zeros, and
// rows behind a document's end are the next one's. By one thread; arrives by bytes.
template <int kRows, int kDim>
__device__ inline void StartRows(Tile<kRows, kDim>& tile, const CUtensorMap& map, int head,
                                 int first, Barrier& barrier) {
#pragma unroll
  for (int panel = 0; panel < kDim / 64; ++panel) {
#pragma unroll
    for (int row = 0; row < kRows; row += 64) {
      asm volatile(
          "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
          "[%0], [%1, {%3, %4, %5}], [%2];\n" ::"r"(
              SharedAddress(tile.data + panel * Tile<kRows, kDim>::kPanel + row * 64)),
          "l"(&map), "r"(SharedAddress(&barrier)), "r"(panel * 64), "r"(head), "r"(first + row)
          : "memory");
    }
  }
}
template <int kRows, int kDim>
inline constexpr int kBytes = kRows* kDim* static_cast<int>(sizeof(bf16));

// Registers move from the warpgroup that copies to those that compute.
template <int kRegisters>
__device__ inline void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void GiveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}

}  // namespace lazytrain::cuda::tma
