#include "ops/cpu/gemm.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/cpu/rows.h"

namespace lazytrain::cpu {
namespace {

// Rows of a tile's left operand that are packed at once.
constexpr int64_t kPackRows = 48;

inline __m256 Load8(const float* p) { return _mm256_loadu_ps(p); }
inline __m256 Load8(const BFloat16* p) {
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

// Transposes 8 x 8 values: row i, from rows[i] + offset, becomes column i of `out`.
template <typename T>
inline void Transpose8(const T* const* rows, int64_t offset, __m256* out) {
  __m256 r[8];
  __m256 t[8];
  for (int i = 0; i < 8; ++i) r[i] = Load8(rows[i] + offset);
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    out[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
    out[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
  }
}

// One panel of `Width` lanes: packed[p * Width + i] = lane i at depth p; lanes lie `stride` apart
// and are contiguous along the depth. Full panels only.
template <int Width, typename T>
void PackPanelAlongDepth(const T* source, int64_t stride, int64_t depth, float* packed) {
  // The left panel has six lanes: two of eight are doubles whose values the next store overwrites.
  const T* rows[2][8];
  constexpr int kHalves = Width == kPanelCols ? 2 : 1;
  for (int half = 0; half < kHalves; ++half) {
    for (int i = 0; i < 8; ++i) {
      rows[half][i] = source + std::min<int64_t>(half * 8 + i, Width - 1) * stride;
    }
  }
  int64_t p = 0;
  for (; p + 8 <= depth; p += 8) {
    for (int half = 0; half < kHalves; ++half) {
      __m256 columns[8];
      Transpose8(rows[half], p, columns);
      for (int j = 0; j < 8; ++j) {
        _mm256_storeu_ps(packed + (p + j) * Width + half * 8, columns[j]);
      }
    }
  }
  for (; p < depth; ++p) {
    for (int i = 0; i < Width; ++i) packed[p * Width + i] = ToFloat(source[i * stride + p]);
  }
}

// The same where lanes are contiguous and depths lie `stride` apart.
template <int Width, typename T>
void PackPanelAcrossDepth(const T* source, int64_t stride, int64_t depth, float* packed) {
  for (int64_t p = 0; p < depth; ++p) {
    for (int i = 0; i < Width; ++i) packed[p * Width + i] = ToFloat(source[p * stride + i]);
  }
}

template <int Width, typename T>
void PackPartialPanel(const T* source, int64_t lane_stride, int64_t depth_stride, int64_t lanes,
                      int64_t depth, float* packed) {
  for (int64_t p = 0; p < depth; ++p) {
    for (int64_t i = 0; i < Width; ++i) {
      packed[p * Width + i] =
          i < lanes ? ToFloat(source[i * lane_stride + p * depth_stride]) : 0.0f;
    }
  }
}

template <int Width, typename T>
void Pack(const T* source, int64_t lane_stride, int64_t depth_stride, int64_t lanes, int64_t depth,
          float* packed) {
  for (int64_t lane = 0; lane < lanes; lane += Width) {
    const T* panel = source + lane * lane_stride;
    if (lanes - lane < Width) {
      PackPartialPanel<Width>(panel, lane_stride, depth_stride, lanes - lane, depth, packed);
    } else if (depth_stride == 1) {
      PackPanelAlongDepth<Width>(panel, lane_stride, depth, packed);
    } else {
      PackPanelAcrossDepth<Width>(panel, depth_stride, depth, packed);
    }
    packed += Width * depth;
  }
}

// c [6, 16] = or += left panel times right panel: twelve registers of sums. They start from zero
// for every stretch of the depth, which keeps long sums accurate.
void MultiplyPanels(int64_t depth, const float* left, const float* right, float* c, int64_t ldc,
                    bool accumulate) {
  __m256 sums[kPanelRows][2];
#pragma GCC unroll 6
  for (int64_t i = 0; i < kPanelRows; ++i) sums[i][0] = sums[i][1] = _mm256_setzero_ps();
  for (int64_t p = 0; p < depth; ++p) {
    const __m256 b0 = _mm256_loadu_ps(right);
    const __m256 b1 = _mm256_loadu_ps(right + 8);
#pragma GCC unroll 6
    for (int64_t i = 0; i < kPanelRows; ++i) {
      const __m256 a = _mm256_broadcast_ss(left + i);
      sums[i][0] = _mm256_fmadd_ps(a, b0, sums[i][0]);
      sums[i][1] = _mm256_fmadd_ps(a, b1, sums[i][1]);
    }
    left += kPanelRows;
    right += kPanelCols;
  }
  // Both loops are unrolled, or the compiler would keep the sums in memory.
#pragma GCC unroll 6
  for (int64_t i = 0; i < kPanelRows; ++i) {
    float* row = c + i * ldc;
    if (accumulate) {
      sums[i][0] = _mm256_add_ps(_mm256_loadu_ps(row), sums[i][0]);
      sums[i][1] = _mm256_add_ps(_mm256_loadu_ps(row + 8), sums[i][1]);
    }
    _mm256_storeu_ps(row, sums[i][0]);
    _mm256_storeu_ps(row + 8, sums[i][1]);
  }
}

// The same at an edge of c, where only rows x cols elements exist.
void MultiplyEdgePanels(int64_t depth, const float* left, const float* right, int64_t rows,
                        int64_t cols, float* c, int64_t ldc, bool accumulate) {
  alignas(32) std::array<float, kPanelRows* kPanelCols> full = {};
  if (accumulate) {
    for (int64_t i = 0; i < rows; ++i) {
      std::copy_n(c + i * ldc, cols, full.data() + i * kPanelCols);
    }
  }
  MultiplyPanels(depth, left, right, full.data(), kPanelCols, accumulate);
  for (int64_t i = 0; i < rows; ++i) {
    std::copy_n(full.data() + i * kPanelCols, cols, c + i * ldc);
  }
}

}  // namespace

template <typename T>
void PackLeft(Matrix<T> a, int64_t rows, int64_t depth, float* packed) {
  Pack<kPanelRows>(a.data, a.row_stride, a.col_stride, rows, depth, packed);
}

template <typename T>
void PackRight(Matrix<T> b, int64_t depth, int64_t cols, float* packed) {
  Pack<kPanelCols>(b.data, b.col_stride, b.row_stride, cols, depth, packed);
}

void MultiplyPacked(int64_t rows, int64_t cols, int64_t depth, const float* left,
                    const float* right, float* c, int64_t ldc, bool accumulate, Part part) {
  // Right panels outermost: one stays in the first-level cache while the left ones stream past.
  for (int64_t j = 0; j < cols; j += kPanelCols) {
    for (int64_t i = 0; i < rows; i += kPanelRows) {
      if (part == Part::kLowerOutput && j >= i + kPanelRows) continue;
      const int64_t begin = part == Part::kUpperLeft ? std::min(i, depth) : 0;
      const int64_t end = part == Part::kLowerLeft ? std::min(i + kPanelRows, depth) : depth;
      const float* left_panel = left + i * depth + begin * kPanelRows;
      const float* right_panel = right + j * depth + begin * kPanelCols;
      float* target = c + i * ldc + j;
      if (rows - i >= kPanelRows && cols - j >= kPanelCols) {
        MultiplyPanels(end - begin, left_panel, right_panel, target, ldc, accumulate);
      } else {
        MultiplyEdgePanels(end - begin, left_panel, right_panel, std::min(kPanelRows, rows - i),
                           std::min(kPanelCols, cols - j), target, ldc, accumulate);
      }
    }
  }
}

Tiling ChooseTiling(int64_t rows, int64_t cols) {
  constexpr int64_t kTasks = 32;
  constexpr int64_t kMinRows = 120;
  constexpr int64_t kMinCols = 128;
  const double area = static_cast<double>(rows) * static_cast<double>(cols) / kTasks;
  // Nearly square tiles are packed with the least work; one side may be short of rows or columns.
  const double square = std::sqrt(area);
  const double want_rows = static_cast<double>(cols) < square ? area / cols : square;
  const int64_t tile_rows = std::clamp(static_cast<int64_t>(want_rows), kMinRows, kTileRows);
  const double want_cols = area / static_cast<double>(std::min(rows, tile_rows));
  const int64_t tile_cols = std::clamp(static_cast<int64_t>(want_cols), kMinCols, kTileCols);
  Tiling tiling;
  tiling.tile_rows = RoundUp(CeilDiv(rows, CeilDiv(rows, tile_rows)), kPanelRows);
  tiling.tile_cols = RoundUp(CeilDiv(cols, CeilDiv(cols, tile_cols)), kPanelCols);
  tiling.row_tiles = CeilDiv(rows, tiling.tile_rows);
  tiling.col_tiles = CeilDiv(cols, tiling.tile_cols);
  return tiling;
}

namespace {

// c [rows, cols] = a [rows, depth] b [depth, cols], at most kTileRows x kTileCols.
template <typename A, typename B>
void MultiplyTile(int64_t rows, int64_t cols, int64_t depth, Matrix<A> a, Matrix<B> b, float* c,
                  int64_t ldc) {
  alignas(64) std::array<float, PackedRightSize(kDepth, kTileCols)> right;
  alignas(64) std::array<float, PackedLeftSize(kPackRows, kDepth)> left;
  if (depth <= 0) {
    for (int64_t i = 0; i < rows; ++i) std::fill_n(c + i * ldc, cols, 0.0f);
    return;
  }
  const int64_t step = RoundUp(CeilDiv(depth, CeilDiv(depth, kDepth)), 8);
  for (int64_t p = 0; p < depth; p += step) {
    const int64_t length = std::min(step, depth - p);
    PackRight(b.Block(p, 0), length, cols, right.data());
    for (int64_t i = 0; i < rows; i += kPackRows) {
      const int64_t count = std::min(kPackRows, rows - i);
      PackLeft(a.Block(i, p), count, length, left.data());
      MultiplyPacked(count, cols, length, left.data(), right.data(), c + i * ldc, ldc, p > 0);
    }
  }
}

template <typename T>
Matrix<T> AsMatrix(const Operand& operand) {
  const Matrix<T> stored{operand.view.as<const T>(), operand.view.cols, 1};
  return operand.transposed ? stored.Transposed() : stored;
}

}  // namespace

void Multiply(ThreadPool& threads, const Operand& a, const Operand& b, const StoreProduct& store) {
  const int64_t rows = a.transposed ? a.view.cols : a.view.rows;
  const int64_t depth = a.transposed ? a.view.rows : a.view.cols;
  const int64_t cols = b.transposed ? b.view.rows : b.view.cols;
  if (rows <= 0 || cols <= 0) return;
  const Tiling tiling = ChooseTiling(rows, cols);
  WithElementType(a.view.dtype, [&](auto a_element) {
    WithElementType(b.view.dtype, [&](auto b_element) {
      const auto left = AsMatrix<decltype(a_element)>(a);
      const auto right = AsMatrix<decltype(b_element)>(b);
      threads.Run(tiling.row_tiles * tiling.col_tiles, [&](int64_t task) {
        alignas(64) std::array<float, kTileRows * kTileCols> tile;
        const int64_t row = task % tiling.row_tiles * tiling.tile_rows;
        const int64_t col = task / tiling.row_tiles * tiling.tile_cols;
        const int64_t row_count = std::min(tiling.tile_rows, rows - row);
        const int64_t col_count = std::min(tiling.tile_cols, cols - col);
        MultiplyTile(row_count, col_count, depth, left.Block(row, 0), right.Block(0, col),
                     tile.data(), tiling.tile_cols);
        for (int64_t i = 0; i < row_count; ++i) {
          store(row + i, col, col_count, tile.data() + i * tiling.tile_cols);
        }
      });
    });
  });
}

template void PackLeft(Matrix<float>, int64_t, int64_t, float*);
template void PackLeft(Matrix<BFloat16>, int64_t, int64_t, float*);
template void PackRight(Matrix<float>, int64_t, int64_t, float*);
template void PackRight(Matrix<BFloat16>, int64_t, int64_t, float*);

}  // namespace lazytrain::cpu
