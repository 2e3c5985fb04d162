// Tensor-core products of tiles in shared memory: mma.m16n8k16 on bfloat16 with float32 sums.
//
// A warp's product is 16 rows by 8 N columns; lane l holds, of each 16 x 8 block, elements
// (l / 4, 2 (l % 4)), its right neighbour, and the same two 8 rows below. A product's result can be
// the left operand of the next without leaving registers (Pack).
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace lazytrain::cuda {

using bf16 = __nv_bfloat16;

// A tile's rows in shared memory: kDim channels and 16 bytes more, so that the eight rows that
// ldmatrix reads at once lie in different banks.
template <int kDim>
inline constexpr int kTileStride = kDim + 8;

__device__ inline uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

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

// Left operand: rows [row, row + 16), channels [k, k + 16) of a tile.
template <int kDim>
__device__ inline void LoadLeft(uint32_t (&a)[4], const bf16* tile, int row, int k) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  LoadMatrices(a, tile + (row + lane % 16) * kTileStride<kDim> + k + lane / 16 * 8);
}

// Right operand of a product with a tile's transpose: its rows [n, n + 16) are the result's
// columns, its channels [k, k + 16) are summed over.
template <int kDim>
__device__ inline void LoadRightTransposed(uint32_t (&b)[4], const bf16* tile, int n, int k) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  LoadMatrices(b, tile + (n + lane % 8 + lane / 16 * 8) * kTileStride<kDim> + k + lane / 8 % 2 * 8);
}

// Right operand of a product with a tile: its rows [k, k + 16) are summed over, its channels
// [n, n + 16) are the result's columns.
template <int kDim>
__device__ inline void LoadRight(uint32_t (&b)[4], const bf16* tile, int k, int n) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  LoadMatricesTransposed(b, tile + (k + lane % 16) * kTileStride<kDim> + n + lane / 16 * 8);
}

__device__ inline uint32_t PackPair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}

// Columns [16 k, 16 k + 16) of a result as the next product's left operand.
template <int kBlocks>
__device__ inline void Pack(uint32_t (&a)[4], const float (&c)[kBlocks][4], int k) {
  a[0] = PackPair(c[2 * k][0], c[2 * k][1]);
  a[1] = PackPair(c[2 * k][2], c[2 * k][3]);
  a[2] = PackPair(c[2 * k + 1][0], c[2 * k + 1][1]);
  a[3] = PackPair(c[2 * k + 1][2], c[2 * k + 1][3]);
}

// c = rows [row, row + 16) of `left` times the transpose of `right`'s first 8 kBlocks rows.
template <int kDim, int kBlocks>
__device__ inline void MultiplyTransposed(float (&c)[kBlocks][4], const bf16* left, int row,
                                          const bf16* right) {
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0.0f;
#pragma unroll
  for (int k = 0; k < kDim; k += 16) {
    uint32_t a[4];
    LoadLeft<kDim>(a, left, row, k);
#pragma unroll
    for (int n = 0; n < kBlocks; n += 2) {
      uint32_t b[4];
      LoadRightTransposed<kDim>(b, right, n * 8, k);
      MultiplyAdd(c[n], a, b[0], b[1]);
      MultiplyAdd(c[n + 1], a, b[2], b[3]);
    }
  }
}

// sums += weights (16 x 8 kBlocks, rounded to bfloat16) times the first 8 kBlocks rows of `right`.
template <int kDim, int kBlocks>
__device__ inline void AddProduct(float (&sums)[kDim / 8][4], const float (&weights)[kBlocks][4],
                                  const bf16* right) {
#pragma unroll
  for (int k = 0; k < kBlocks / 2; ++k) {
    uint32_t a[4];
    Pack(a, weights, k);
#pragma unroll
    for (int n = 0; n < kDim / 8; n += 2) {
      uint32_t b[4];
      LoadRight<kDim>(b, right, k * 16, n * 8);
      MultiplyAdd(sums[n], a, b[0], b[1]);
      MultiplyAdd(sums[n + 1], a, b[2], b[3]);
    }
  }
}

// 2^x, to a float32's last bits but two.
__device__ inline float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Starts copying kRows rows of a head, from token `first` on, into a tile; rows from `end` on and
// channels from `dim` on become zeros. All kThreads threads of the block take part.
template <int kDim, int kRows, int kThreads>
__device__ inline void StartTile(bf16* tile, const bf16* head, int64_t stride, int first, int end,
                                 int dim) {
  constexpr int kPieces = kDim / 8;
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kPieces; i += kThreads) {
    const int row = i / kPieces;
    const int col = i % kPieces * 8;
    const bool is_there = first + row < end && col < dim;
    const bf16* from = is_there ? head + (first + row) * stride + col : head;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(
                     SharedAddress(tile + row * kTileStride<kDim> + col)),
                 "l"(from), "r"(is_there ? 16 : 0));
  }
}
__device__ inline void CommitTiles() { asm volatile("cp.async.commit_group;\n" ::); }
// Until all but the last `kPending` groups of this thread's copies are there.
template <int kPending>
__device__ inline void AwaitTiles() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending));
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

// A warp's result times `factor`, rows [token, token + 16) of a head, those before `end`.
template <int kDim>
__device__ inline void StoreRows(const float (&sums)[kDim / 8][4], float upper_factor,
                                 float lower_factor, bf16* head, int64_t stride, int token, int end,
                                 int dim, bool accumulate) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int upper = token + lane / 4;
#pragma unroll
  for (int n = 0; n < kDim / 8; ++n) {
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
