#include <array>
#include <cmath>

#include "ops/attention.h"
#include "tests/ops/cuda_harness.h"

namespace lazytrain::testing {
namespace {

constexpr Tolerance kFloat = {1e-5, 3e-5, 2e-5};
// Probabilities and gradients of scores are rounded to bfloat16 between two products.
constexpr Tolerance kShort = {1e-2, 1e-2, 0x1p-6};

struct Shape {
  int64_t q_heads;
  int64_t kv_heads;
  int64_t head_dim;
  int64_t window;
  std::vector<int32_t> lengths;
};

class CudaAttention : public ::testing::TestWithParam<DType> {
 protected:
  void Check(const Shape& shape) {
    Attention op;
    op.q_heads = shape.q_heads;
    op.kv_heads = shape.kv_heads;
    op.head_dim = shape.head_dim;
    op.window = shape.window;
    op.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
    op.dtype = GetParam();
    OpCase test;
    test.op = &op;
    test.cu_seqlens = CuSeqlens(shape.lengths);
    const int64_t tokens = test.cu_seqlens.back();
    const int64_t q_cols = op.q_heads * op.head_dim;
    test.inputs.push_back(
        Buffer::Random(GetParam(), tokens, q_cols + 2 * op.kv_heads * op.head_dim, random_, 1.2));
    test.outputs.push_back({GetParam(), tokens, q_cols});
    test.outputs.push_back({DType::kF32, tokens, op.q_heads});
    test.d_outputs.push_back(Buffer::Random(GetParam(), tokens, q_cols, random_));
    CompareOp(test, GetParam() == DType::kBF16 ? &kShort : &kFloat);
  }

  std::mt19937 random_{3};
};

INSTANTIATE_TEST_SUITE_P(DTypes, CudaAttention, ::testing::Values(DType::kF32, DType::kBF16),
                         DTypeName);

TEST_P(CudaAttention, OneDocument) {
  for (const int64_t dim : {16, 64, 80, 128, 256}) Check({4, 2, dim, 0, {200}});
}

TEST_P(CudaAttention, ShapesOfTheTensorCoresEdges) {
  for (const int64_t dim : {8, 24, 56, 72, 96, 120, 136, 192}) Check({2, 1, dim, 0, {65, 3}});
}

TEST_P(CudaAttention, OddHeadDimension) { Check({3, 1, 6, 0, {50, 20}}); }

TEST_P(CudaAttention, PackedDocuments) {
  Check({6, 3, 64, 0, {1, 2, 63, 64, 65, 1, 31, 32, 33, 127, 128, 129, 5}});
  Check({4, 4, 128, 0, {300, 1, 1, 1, 250}});
}

TEST_P(CudaAttention, ManyQueriesAKey) { Check({14, 2, 64, 0, {150, 77}}); }

TEST_P(CudaAttention, Window) {
  for (const int64_t window : {1, 2, 31, 64, 65, 100, 1000}) {
    Check({4, 2, 64, window, {260, 70, 1}});
  }
  Check({2, 1, 256, 50, {190, 70}});
  Check({2, 1, 128, 129, {400}});
}

TEST_P(CudaAttention, LongDocument) { Check({2, 1, 128, 0, {1500}}); }

TEST_P(CudaAttention, RandomDocuments) {
  for (int round = 0; round < 6; ++round) {
    std::vector<int32_t> lengths;
    const int documents = 1 + static_cast<int>(random_() % 12);
    for (int d = 0; d < documents; ++d) lengths.push_back(1 + static_cast<int>(random_() % 140));
    const int64_t window = round % 2 == 0 ? 0 : 1 + static_cast<int64_t>(random_() % 150);
    Check({4, 2, round < 3 ? 32 : 128, window, lengths});
  }
}

}  // namespace
}  // namespace lazytrain::testing
