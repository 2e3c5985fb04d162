// Tiles of a head's rows in shared memory, and tensor-core products of them, bfloat16 with float32
// sums. On sm_90a products are Hopper's (wgmma.cuh), else those of every GPU since 2020 (mma.sync).
//
// A warpgroup (128 threads) has 64 rows of a result, each of its warps 16. Of every 16 x 8 block of
// these lane l holds elements (l / 4, 2 (l % 4)), its right neighbour, and the same two 8 rows
// below. A result can be the left operand of the next product without leaving registers.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "ops/cuda/async_copy.cuh"
#include "ops/cuda/wgmma.cuh"

namespace lazytrain::cuda {

using bf16 = __nv_bfloat16;

// The thread's warpgroup, such that the compiler knows that it is a warp's and not a thread's.
__device__ inline int WarpgroupOfBlock() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);
}

// kRows rows of kDim channels, as wgmma.cuh wants them; at a multiple of 1024 bytes.
template <int kRows, int kDim>
struct Tile {
  static_assert(kRows % 8 == 0 && kDim % 64 == 0);
  static constexpr int kPanel = kRows * 64;  // elements

  alignas(1024) bf16 data[kRows * kDim];

  // 8 channels from `col` on, a multiple of 8.
  __device__ const bf16* At(int row, int col) const {
    return data + col / 64 * kPanel + row * 64 + ((col % 64 / 8) ^ (row % 8)) * 8;
  }
  __device__ bf16* At(int row, int col) {
    return const_cast<bf16*>(const_cast<const Tile*>(this)->At(row, col));
  }

  // Starts copying rows of a head, from token `first` on; rows from `end` on and channels from
  // `dim` on become zeros. All kThreads threads of the block take part.
  template <int kThreads>
  __device__ void Start(const bf16* head, int64_t stride, int first, int end, int dim) {
    constexpr int kPieces = kDim / 8;
    constexpr int kStep = kThreads / kPieces;  // rows that the block copies at once
    static_assert(kStep % 8 == 0 && kRows % kStep == 0);
    const int row = static_cast<int>(threadIdx.x) / kPieces;
    const int col = static_cast<int>(threadIdx.x) % kPieces * 8;
    const bf16* from = head + int64_t{first + row} * stride + col;
    const uint32_t to = SharedAddress(At(row, col));
    // Rows from the thread's first on that are there.
    const int rows = col < dim ? end - first - row : 0;
#pragma unroll
    for (int step = 0; step < kRows; step += kStep) {
      const bool is_there = step < rows;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to + step * 128),
                   "l"(is_there ? from + step * stride : head), "r"(is_there ? 16 : 0)
                   : "memory");
    }
  }
};

// Until all but the last `kPending` groups of copies are there, for the whole block and its tensor
// cores.
template <int kPending>
__device__ inline void AwaitTiles() {
  AwaitCopyGroups<kPending>();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
#endif
  __syncthreads();
}

// Dynamic shared memory as a T; the launch asks for SharedBytes<T>.
template <typename T>
inline constexpr int SharedBytes = static_cast<int>(sizeof(T)) + 1024;
template <typename T>
__device__ inline T& SharedMemory() {
  extern __shared__ unsigned char memory[];
  const uint32_t address = SharedAddress(memory);
  return *reinterpret_cast<T*>(memory + ((address + 1023) / 1024 * 1024 - address));
}

__device__ inline uint32_t PackPair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}

// A 16 x 8 kBlocks result of a warp, rounded to bfloat16, as the next product's left operand.
template <int kBlocks>
struct LeftOperand {
  uint32_t parts[kBlocks / 2][4];

  __device__ explicit LeftOperand(const float (&c)[kBlocks][4]) {
#pragma unroll
    for (int k = 0; k < kBlocks / 2; ++k) {
      parts[k][0] = PackPair(c[2 * k][0], c[2 * k][1]);
      parts[k][1] = PackPair(c[2 * k][2], c[2 * k][3]);
      parts[k][2] = PackPair(c[2 * k + 1][0], c[2 * k + 1][1]);
      parts[k][3] = PackPair(c[2 * k + 1][2], c[2 * k + 1][3]);
    }
  }
};

// A product that was started may be looked at, and its operands changed, behind AwaitProducts.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ inline void AwaitProducts() { wgmma::Await<0>(); }

// c = rows [row, row + 64) of `left` times the transpose of `right`.
template <int kBlocks, int kLeft, int kRight, int kDim>
__device__ inline void StartTransposed(float (&c)[kBlocks][4], const Tile<kLeft, kDim>& left,
                                       int row, const Tile<kRight, kDim>& right) {
  static_assert(kBlocks * 8 == kRight);
  // One descriptor each, and distances from it: they are made between products.
  const uint64_t a = wgmma::Descriptor(SharedAddress(left.data + row * 64), 0);
  const uint64_t b = wgmma::Descriptor(SharedAddress(right.data), 0);
  wgmma::Fence();
#pragma unroll
  for (int k = 0; k < kDim; k += 16) {
    const int channel = k % 64;  // a step within a panel's rows
    wgmma::MultiplyShared<kRight>(c, a + wgmma::Distance(k / 64 * left.kPanel + channel),
                                  b + wgmma::Distance(k / 64 * right.kPanel + channel), k > 0);
  }
  wgmma::Commit();
}

// sums += left times `right`.
template <int kBlocks, int kRight, int kDim>
__device__ inline void StartProduct(float (&sums)[kDim / 8][4], const LeftOperand<kBlocks>& left,
                                    const Tile<kRight, kDim>& right) {
  static_assert(kBlocks * 8 == kRight);
  const uint64_t b =
      wgmma::Descriptor(SharedAddress(right.data), right.kPanel * static_cast<int>(sizeof(bf16)));
  wgmma::Fence();
#pragma unroll
  for (int k = 0; k < kBlocks / 2; ++k) {
    wgmma::MultiplyRegisters<kDim>(sums, left.parts[k], b + wgmma::Distance(k * 16 * 64));
  }
  wgmma::Commit();
}

#else

__device__ inline void AwaitProducts() {}

__device__ inline void LoadMatrices(uint32_t (&r)[4], const bf16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(SharedAddress(row)));
}
__device__ inline void LoadMatricesTransposed(uint32_t (&r)[4], const bf16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(SharedAddress(row)));
}
__device__ inline void MultiplyAdd(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                   uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <int kBlocks, int kLeft, int kRight, int kDim>
__device__ inline void StartTransposed(float (&c)[kBlocks][4], const Tile<kLeft, kDim>& left,
                                       int row, const Tile<kRight, kDim>& right) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = row + static_cast<int>(threadIdx.x) / 32 % 4 * 16;
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0.0f;
#pragma unroll
  for (int k = 0; k < kDim; k += 16) {
    uint32_t a[4];
    LoadMatrices(a, left.At(warp_row + lane % 16, k + lane / 16 * 8));
#pragma unroll
    for (int n = 0; n < kBlocks; n += 2) {
      uint32_t b[4];
      LoadMatrices(b, right.At(n * 8 + lane % 8 + lane / 16 * 8, k + lane / 8 % 2 * 8));
      MultiplyAdd(c[n], a, b[0], b[1]);
      MultiplyAdd(c[n + 1], a, b[2], b[3]);
    }
  }
}

template <int kBlocks, int kRight, int kDim>
__device__ inline void StartProduct(float (&sums)[kDim / 8][4], const LeftOperand<kBlocks>& left,
                                    const Tile<kRight, kDim>& right) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int k = 0; k < kBlocks / 2; ++k) {
#pragma unroll
    for (int n = 0; n < kDim / 8; n += 2) {
      uint32_t b[4];
      LoadMatricesTransposed(b, right.At(k * 16 + lane % 16, n * 8 + lane / 16 * 8));
      MultiplyAdd(sums[n], left.parts[k], b[0], b[1]);
      MultiplyAdd(sums[n + 1], left.parts[k], b[2], b[3]);
    }
  }
}

#endif

// 2^x, to a float32's last bits but two.
__device__ inline float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Two neighbouring columns.
__device__ inline void PutPair(bf16* target, float a, float b, bool accumulate) {
  auto* pair = reinterpret_cast<__nv_bfloat162*>(target);
  if (accumulate) {
    const float2 before = __bfloat1622float2(*pair);
    a += before.x;
    b += before.y;
  }
  *pair = __floats2bfloat162_rn(a, b);
}

// A warp's rows [token, token + 16) of a head, those before `end`; the lane's upper row and lower
// row times a factor each.
template <int kBlocks>
__device__ inline void StoreRows(const float (&sums)[kBlocks][4], float upper_factor,
                                 float lower_factor, bf16* head, int64_t stride, int token, int end,
                                 int dim, bool accumulate) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int upper = token + lane / 4;
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
    const int col = n * 8 + lane % 4 * 2;
    if (col >= dim) continue;
    if (upper < end) {
      PutPair(head + upper * stride + col, sums[n][0] * upper_factor, sums[n][1] * upper_factor,
              accumulate);
    }
    if (upper + 8 < end) {
      PutPair(head + (upper + 8) * stride + col, sums[n][2] * lower_factor,
              sums[n][3] * lower_factor, accumulate);
    }
  }
}

}  // namespace lazytrain::cuda
