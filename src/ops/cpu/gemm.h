// Matrix products for one thread, and for all of them over tiles of the output. Packed panels and a
// 6 x 16 register tile (Goto and van de Geijn 2008), float32 accumulation, short operands widened
// as they are packed. No state and no allocation: threads cannot disturb each other, and an
// element's bits depend on the shape of the product alone.
#pragma once

#include <cstdint>
#include <functional>

#include "core/tensor.h"
#include "core/thread_pool.h"
#include "core/units.h"

namespace lazytrain::cpu {

// Element (i, j) is data[i * row_stride + j * col_stride]; one of the strides is 1.
template <typename T>
struct Matrix {
  const T* data = nullptr;
  int64_t row_stride = 0;
  int64_t col_stride = 1;

  Matrix Block(int64_t row, int64_t col) const {
    return {data + row * row_stride + col * col_stride, row_stride, col_stride};
  }
  Matrix Transposed() const { return {data, col_stride, row_stride}; }
};

inline constexpr int64_t kPanelRows = 6;   // of a left operand
inline constexpr int64_t kPanelCols = 16;  // of a right operand
// Longest stretch of the inner dimension that is packed at once.
inline constexpr int64_t kDepth = 384;

// Floats that a packed operand takes: whole panels, and room for a store that overhangs.
inline constexpr int64_t PackedLeftSize(int64_t rows, int64_t depth) {
  return RoundUp(rows, kPanelRows) * depth + kPanelCols;
}
inline constexpr int64_t PackedRightSize(int64_t depth, int64_t cols) {
  return RoundUp(cols, kPanelCols) * depth;
}

// Packs a [rows, depth] left or [depth, cols] right operand; missing rows or columns of the last
// panel become zeros. T is float or BFloat16.
template <typename T>
void PackLeft(Matrix<T> a, int64_t rows, int64_t depth, float* packed);
template <typename T>
void PackRight(Matrix<T> b, int64_t depth, int64_t cols, float* packed);

// What of a product is wanted or not zero; the rest costs nothing. Triangles include the diagonal.
enum class Part {
  kWhole,
  kLowerOutput,  // only c[i, j], j <= i, matters: the rest is left undefined
  kLowerLeft,    // left[i, p] is zero for p > i
  kUpperLeft,    // left[i, p] is zero for p < i
};

// c [rows, cols] (row stride ldc) = or += left right, both packed.
void MultiplyPacked(int64_t rows, int64_t cols, int64_t depth, const float* left,
                    const float* right, float* c, int64_t ldc, bool accumulate,
                    Part part = Part::kWhole);

// A tile of a large product: at most kTileRows x kTileCols.
inline constexpr int64_t kTileRows = 240;
inline constexpr int64_t kTileCols = 384;
// How an output is cut into tiles: about 32 of them, no smaller than 120 x 128 and no larger than
// kTileRows x kTileCols. A function of the shape only.
struct Tiling {
  int64_t tile_rows = 0;
  int64_t tile_cols = 0;
  int64_t row_tiles = 0;
  int64_t col_tiles = 0;
};
Tiling ChooseTiling(int64_t rows, int64_t cols);

// Receives columns [col, col + count) of row `row` of a product; may change the values.
using StoreProduct = std::function<void(int64_t row, int64_t col, int64_t count, float* values)>;

// A stored matrix (float32 or bfloat16) and whether its transpose is meant.
struct Operand {
  TensorView view;
  bool transposed = false;
};

// Hands a b to `store` in pieces, from all threads in any order.
void Multiply(ThreadPool& threads, const Operand& a, const Operand& b, const StoreProduct& store);

}  // namespace lazytrain::cpu
