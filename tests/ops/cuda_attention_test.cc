#include <array>
#include <cmath>

#include "ops/attention.h"
#include "ops/cached_attention.h"
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
  bool biased = false;
};

// Slopes of linear biases as models have them, a head's half of the one before, and a 0.
std::vector<float> Slopes(int64_t heads) {
  std::vector<float> slopes(static_cast<size_t>(heads));
  for (size_t h = 1; h < slopes.size(); ++h) slopes[h] = std::exp2(-static_cast<float>(h % 8));
  return slopes;
}

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
    if (shape.biased) op.slopes = Slopes(shape.q_heads);
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

TEST_P(CudaAttention, LinearBiases) {
  for (const int64_t dim : {6, 32, 64, 80, 128, 160, 256}) Check({4, 2, dim, 0, {200, 3}, true});
  Check({6, 1, 128, 0, {700}, true});
  Check({3, 3, 64, 40, {190, 1, 130}, true});
}

TEST_P(CudaAttention, LinearBiasesOfRandomDocuments) {
  for (int round = 0; round < 6; ++round) {
    std::vector<int32_t> lengths;
    const int documents = 1 + static_cast<int>(random_() % 8);
    for (int d = 0; d < documents; ++d) lengths.push_back(1 + static_cast<int>(random_() % 300));
    const int64_t window = round % 3 == 0 ? 1 + static_cast<int64_t>(random_() % 150) : 0;
    Check({5, 1, std::array<int64_t, 3>{40, 96, 128}[random_() % 3], window, lengths, true});
  }
}

// What surrounds a document leaves its bits alone.
TEST_P(CudaAttention, ADocumentsBitsAreItsOwn) {
  for (const int64_t dim : {64, 128}) {
    Attention op;
    op.q_heads = 4;
    op.kv_heads = 2;
    op.head_dim = dim;
    op.scale = 0.1f;
    op.dtype = GetParam();
    const int64_t cols = 8 * dim;
    const Buffer document = Buffer::Random(GetParam(), 150, cols, random_);
    const std::vector<double> values = document.values();
    std::vector<std::vector<double>> found;
    for (const int64_t before : {0, 77}) {
      OpCase test;
      test.op = &op;
      std::vector<double> all =
          Buffer::Random(GetParam(), std::max<int64_t>(before, 1), cols, random_).values();
      all.resize(static_cast<size_t>(before * cols));
      all.insert(all.end(), values.begin(), values.end());
      test.cu_seqlens = before == 0 ? CuSeqlens({150}) : CuSeqlens({77, 150});
      test.inputs.push_back(Buffer::Of(GetParam(), before + 150, cols, all));
      test.outputs = {{GetParam(), before + 150, 4 * dim}, {DType::kF32, before + 150, 4}};
      const std::vector<double> attn = RunForwardCuda(test).outputs[0].values();
      found.emplace_back(attn.begin() + before * 4 * dim, attn.end());
    }
    EXPECT_EQ(found[0], found[1]) << dim;
  }
}

TEST_P(CudaAttention, CachedRowsSeeWhatTheyWouldInTheDocument) {
  for (const bool biased : {false, true}) {
    Attention op;
    op.q_heads = 4;
    op.kv_heads = 2;
    op.head_dim = 32;
    op.scale = 0.2f;
    op.window = biased ? 0 : 90;
    op.dtype = GetParam();
    if (biased) op.slopes = Slopes(4);
    OpCase whole;
    whole.op = &op;
    whole.cu_seqlens = CuSeqlens({170});
    whole.inputs.push_back(Buffer::Random(GetParam(), 170, 8 * 32, random_));
    whole.outputs = {{GetParam(), 170, 4 * 32}, {DType::kF32, 170, 4}};
    const std::vector<double> qkv = whole.inputs[0].values();
    const std::vector<double> expected = RunForward(whole, 2).outputs[0].values();

    const CachedAttention cached(op);
    const int64_t there = 131;
    std::vector<double> kept(static_cast<size_t>(170 * 4 * 32));
    for (int64_t row = 0; row < there; ++row) {
      std::copy_n(qkv.begin() + row * 8 * 32 + 4 * 32, 4 * 32, kept.begin() + row * 4 * 32);
    }
    OpCase test;
    test.op = &cached;
    test.cached = there;
    test.cu_seqlens = CuSeqlens({170 - static_cast<int32_t>(there)});
    test.inputs.push_back(
        Buffer::Of(GetParam(), 170 - there, 8 * 32, {qkv.begin() + there * 8 * 32, qkv.end()}));
    test.inputs.push_back(Buffer::Of(GetParam(), 170, 4 * 32, kept));
    test.outputs = {{GetParam(), 170 - there, 4 * 32}};
    const std::vector<double> actual = RunForwardCuda(test).outputs[0].values();
    const std::vector<double> rows(expected.begin() + there * 4 * 32, expected.end());
    EXPECT_LT(RelativeError(actual, rows), GetParam() == DType::kBF16 ? 1e-2 : 1e-5);
  }
}

}  // namespace
}  // namespace lazytrain::testing
