// How the rows of a norm are shared among blocks and threads, forward and backward.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <type_traits>

#include "ops/cuda/launch.h"
#include "ops/cuda/norm_rows.h"
#include "ops/cuda/vectors.cuh"

namespace lazytrain::cuda {

inline constexpr int kMaxThreads = 512;  // of a block
inline constexpr int kNarrowThreads = 256;

// How a kernel's threads share rows: `threads` (blockDim.x) a row, `rows` (blockDim.y) at a time.
// Rows of up to 32 threads are added up by shuffles within a warp, longer ones by several warps.
struct Shares {
  int threads;
  int rows;
  int vectors;  // of kWide elements that a thread has of a row

  bool warps() const { return threads > 32; }
};

// Whether threads keep their share of a row: the other kernels read it from memory again, element
// by element.
inline bool IsWide(int64_t size, DType dtype) {
  const int64_t width = 16 / SizeOf(dtype);
  return size % width == 0 && size <= kMaxThreads * 4 * width;
}

// Neighbouring stretches that are treated alike. A block takes rows of one part only.
struct Part {
  int64_t rows = 0;
  uint32_t groups = 1;
  int64_t offset = 0;           // elements from the first stretch of a token
  const void* scale = nullptr;  // null: rows are copied
  unsigned first_block = 0;
};

struct Norm {
  Part parts[3];
  int size;
  int64_t token_stride;
  float eps;
  float inverse_size;
  float scale_offset;
  bool scales_are_bf16;

  __device__ int PartOfBlock() const {
    return blockIdx.x >= parts[2].first_block ? 2 : blockIdx.x >= parts[1].first_block ? 1 : 0;
  }
  // Where a part's row begins; -1: there is no such row.
  __device__ int64_t At(const Part& part, int64_t row) const {
    if (row >= part.rows) return -1;
    if (part.groups == 1) return row * token_stride + part.offset;
    const auto r = static_cast<uint32_t>(row);
    const uint32_t token = r / part.groups;
    return int64_t{token} * token_stride + part.offset + int64_t{r - token * part.groups} * size;
  }
  template <int N>
  __device__ void LoadScale(const Part& part, int col, float (&values)[N]) const {
    if (scales_are_bf16) {
      const auto v =
          Vec<__nv_bfloat16, N>::Load(static_cast<const __nv_bfloat16*>(part.scale) + col);
#pragma unroll
      for (int k = 0; k < N; ++k) values[k] = AsFloat(v.at[k]) + scale_offset;
    } else {
      const auto v = Vec<float, N>::Load(static_cast<const float*>(part.scale) + col);
#pragma unroll
      for (int k = 0; k < N; ++k) values[k] = v.at[k] + scale_offset;
    }
  }
  __device__ float InverseRms(float squares) const {
    return __frsqrt_rn(squares * inverse_size + eps);
  }
};

// Stretches of a token in each part.
struct PartSizes {
  int64_t groups[3];

  explicit PartSizes(const NormShape& shape)
      : groups{shape.second_from, shape.plain_from - shape.second_from,
               shape.groups - shape.plain_from} {}
};

// A norm, and the blocks that it takes.
struct Grid {
  Norm norm;
  unsigned blocks;
};

inline Grid GridOf(const NormShape& shape, const NormScales& scales, int64_t rows_a_block) {
  Count32(shape.rows());
  Grid grid = {};
  Norm& norm = grid.norm;
  norm.size = static_cast<int>(shape.size);
  norm.token_stride = shape.token_stride;
  norm.eps = shape.eps;
  norm.inverse_size = 1.0f / static_cast<float>(shape.size);
  norm.scale_offset = shape.scale_offset;
  norm.scales_are_bf16 = scales.first.dtype == DType::kBF16;
  const PartSizes sizes(shape);
  const void* of[3] = {scales.first.data, scales.second.data, nullptr};
  int64_t offset = 0;
  for (int p = 0; p < 3; ++p) {
    const int64_t groups = sizes.groups[p];
    norm.parts[p] = {shape.tokens * groups, static_cast<uint32_t>(std::max<int64_t>(groups, 1)),
                     offset, of[p], grid.blocks};
    offset += groups * shape.size;
    grid.blocks += Blocks(norm.parts[p].rows, rows_a_block);
  }
  return grid;
}

template <int kValue>
using Constant = std::integral_constant<int, kValue>;

// Whether this call takes the kernels that keep rows. The addresses are those of the
// arena or lie whole heads further, so the size alone decides in practice.
inline bool TakesWide(const NormShape& shape, const NormScales& scales,
                      std::initializer_list<const void*> addresses) {
  const int64_t width = 16 / SizeOf(shape.dtype);
  return IsWide(shape.size, shape.dtype) && shape.token_stride % width == 0 &&
         IsAligned(scales.first.data) && IsAligned(scales.second.data) &&
         std::all_of(addresses.begin(), addresses.end(), IsAligned);
}

}  // namespace lazytrain::cuda
