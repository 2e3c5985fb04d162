#include "ops/cpu/gemm.h"

#include <thread>

#include "tests/ops/buffer.h"

namespace lazytrain::cpu {
namespace {

using testing::Buffer;

struct Shape3 {
  int64_t rows;
  int64_t cols;
  int64_t depth;
};

std::vector<float> Product(ThreadPool& threads, const Shape3& shape, Buffer& a, bool a_transposed,
                           Buffer& b, bool b_transposed) {
  std::vector<float> c(static_cast<size_t>(shape.rows * shape.cols), NAN);
  Multiply(threads, {a.view(), a_transposed}, {b.view(), b_transposed},
           [&](int64_t row, int64_t col, int64_t count, const float* values) {
             std::copy_n(values, count, c.data() + row * shape.cols + col);
           });
  return c;
}

TEST(Gemm, MatchesDoubleInEveryLayoutAndType) {
  std::mt19937 random(1);
  ThreadPool threads(2);
  for (const Shape3& shape : {Shape3{1, 1, 1},
                              {6, 16, 8},
                              {7, 17, 9},
                              {50, 70, 1000},
                              {250, 400, 5},
                              {1, 500, 33},
                              {500, 1, 33}}) {
    for (int mode = 0; mode < 16; ++mode) {
      const bool at = (mode & 1) != 0;
      const bool bt = (mode & 2) != 0;
      const DType a_type = (mode & 4) != 0 ? DType::kBF16 : DType::kF32;
      const DType b_type = (mode & 8) != 0 ? DType::kBF16 : DType::kF32;
      const auto [m, n, k] = shape;
      Buffer a = at ? Buffer::Random(a_type, k, m, random) : Buffer::Random(a_type, m, k, random);
      Buffer b = bt ? Buffer::Random(b_type, n, k, random) : Buffer::Random(b_type, k, n, random);
      const std::vector<float> c = Product(threads, shape, a, at, b, bt);
      const std::vector<double> av = a.values();
      const std::vector<double> bv = b.values();
      std::vector<double> expected(c.size(), 0.0);
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t p = 0; p < k; ++p) {
          const double left = at ? av[p * m + i] : av[i * k + p];
          for (int64_t j = 0; j < n; ++j) {
            expected[i * n + j] += left * (bt ? bv[j * k + p] : bv[p * n + j]);
          }
        }
      }
      EXPECT_LT(testing::RelativeError({c.begin(), c.end()}, expected), 5e-7)
          << m << " " << n << " " << k << " mode " << mode;
    }
  }
}

TEST(Gemm, AnEmptyDepthGivesZeros) {
  ThreadPool threads(1);
  Buffer a(DType::kF32, 0, 5);
  Buffer b(DType::kF32, 0, 7);
  for (const float value : Product(threads, {5, 7, 0}, a, true, b, false)) EXPECT_EQ(value, 0.0f);
}

TEST(Gemm, ConcurrentProductsDoNotDisturbEachOther) {
  std::mt19937 random(2);
  const Shape3 shape{70, 90, 300};
  Buffer a = Buffer::Random(DType::kF32, 70, 300, random);
  Buffer b = Buffer::Random(DType::kBF16, 90, 300, random);
  ThreadPool one(1);
  const std::vector<float> expected = Product(one, shape, a, false, b, true);
  std::vector<std::thread> callers;
  std::vector<int> different(8, 0);
  for (int& count : different) {
    callers.emplace_back([&] {
      ThreadPool two(2);
      for (int round = 0; round < 30; ++round) {
        count += Product(two, shape, a, false, b, true) == expected ? 0 : 1;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(different, std::vector<int>(8, 0));
}

TEST(Gemm, TilesCoverTheOutputAndFitTheirBounds) {
  for (const int64_t rows : {1, 47, 48, 500, 4096, 152000}) {
    for (const int64_t cols : {1, 64, 500, 4096, 152000}) {
      const Tiling tiling = ChooseTiling(rows, cols);
      EXPECT_LE(tiling.tile_rows, kTileRows);
      EXPECT_LE(tiling.tile_cols, kTileCols);
      EXPECT_GE(tiling.row_tiles * tiling.tile_rows, rows);
      EXPECT_GE(tiling.col_tiles * tiling.tile_cols, cols);
      EXPECT_LT((tiling.row_tiles - 1) * tiling.tile_rows, rows);
      EXPECT_LT((tiling.col_tiles - 1) * tiling.tile_cols, cols);
    }
  }
}

}  // namespace
}  // namespace lazytrain::cpu
