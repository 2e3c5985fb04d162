// Kernels that work row by row: norms, rotations, activations, copies of rows.
#include <gmock/gmock.h>

#include <array>
#include <cmath>

#include "core/error.h"
#include "ops/embedding.h"
#include "ops/gather_rows.h"
#include "ops/qk_norm.h"
#include "ops/regroup_heads.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/swiglu.h"
#include "tests/ops/cuda_harness.h"

namespace lazytrain::testing {
namespace {

class CudaRows : public ::testing::TestWithParam<DType> {
 protected:
  Buffer Random(int64_t rows, int64_t cols, double scale = 1.0) {
    return Buffer::Random(GetParam(), rows, cols, random_, scale);
  }
  OutputSpec Output(int64_t rows, int64_t cols) const { return {GetParam(), rows, cols}; }

  std::mt19937 random_{1};
};

INSTANTIATE_TEST_SUITE_P(DTypes, CudaRows, ::testing::Values(DType::kF32, DType::kBF16), DTypeName);

TEST_P(CudaRows, RmsNorm) {
  // The long ones are more rows than one round of blocks takes.
  const std::vector<std::pair<int64_t, int64_t>> sizes = {
      {1, 8},      {33, 64},    {70, 100},   {257, 128},  {19, 896},  {66, 1536},
      {200, 3584}, {130, 5120}, {40, 8192},  {7, 2049},   {5, 16384}, {3, 24576},
      {9001, 64},  {1500, 512}, {1901, 896}, {900, 3584}, {283, 8200}};
  for (const auto& [rows, hidden] : sizes) {
    for (const bool has_residual : {false, true}) {
      RmsNorm op;
      op.hidden = hidden;
      op.scale_offset = has_residual ? 1.0f : 0.0f;
      op.has_residual = has_residual;
      op.dtype = GetParam();
      OpCase test;
      test.op = &op;
      test.inputs.push_back(Random(rows, hidden, 2.0));
      if (has_residual) test.inputs.push_back(Random(rows, hidden));
      test.weights.push_back(Random(1, hidden, 0.5));
      test.outputs.push_back(Output(rows, hidden));
      test.d_outputs.push_back(Random(rows, hidden));
      CompareOp(test);
    }
  }
}

TEST_P(CudaRows, QkNorm) {
  for (const auto& [q, kv, dim] : std::vector<std::array<int64_t, 3>>{
           {4, 2, 16}, {28, 4, 128}, {3, 3, 80}, {2, 1, 256}, {5, 1, 6}, {8, 8, 64}}) {
    for (const bool per_head : {true, false}) {
      QkNorm op;
      op.q_heads = q;
      op.kv_heads = kv;
      op.head_dim = dim;
      op.per_head = per_head;
      op.dtype = GetParam();
      const int64_t rows = q == 28 ? 600 : 37;
      const int64_t cols = (q + 2 * kv) * dim;
      OpCase test;
      test.op = &op;
      test.inputs.push_back(Random(rows, cols, 2.0));
      test.weights.push_back(Random(1, op.group(0), 0.5));
      test.weights.push_back(Random(1, op.group(1), 0.5));
      test.outputs.push_back(Output(rows, cols));
      test.d_outputs.push_back(Random(rows, cols));
      CompareOp(test);
    }
  }
}

TEST_P(CudaRows, Swiglu) {
  for (const auto& [rows, n] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 8}, {33, 100}, {65, 1536}, {11, 7}, {301, 264}}) {
    Swiglu op;
    op.intermediate = n;
    op.dtype = GetParam();
    OpCase test;
    test.op = &op;
    test.inputs.push_back(Random(rows, 2 * n, 3.0));
    test.outputs.push_back(Output(rows, n));
    test.d_outputs.push_back(Random(rows, n));
    CompareOp(test);
  }
}

Rope MakeRope(int64_t q, int64_t kv, int64_t dim, int64_t rotary, bool interleaved, DType dtype) {
  Rope op;
  op.q_heads = q;
  op.kv_heads = kv;
  op.head_dim = dim;
  for (int64_t i = 0; i < rotary / 2; ++i) {
    op.inverse_frequencies.push_back(static_cast<float>(
        std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(rotary))));
  }
  op.interleaved = interleaved;
  op.scaling = 1.25f;
  op.dtype = dtype;
  return op;
}

TEST_P(CudaRows, Rope) {
  for (const auto& [q, kv, dim, rotary] : std::vector<std::array<int64_t, 4>>{
           {4, 2, 16, 16}, {28, 4, 128, 128}, {2, 2, 64, 32}, {3, 1, 10, 6}, {2, 1, 256, 256}}) {
    for (const bool interleaved : {false, true}) {
      for (const bool has_long : {false, true}) {
        Rope op = MakeRope(q, kv, dim, rotary, interleaved, GetParam());
        const std::vector<int32_t> lengths = {5, 1, 40, 20};
        OpCase test;
        test.cu_seqlens = CuSeqlens(lengths);
        if (has_long) {
          for (const float f : op.inverse_frequencies) {
            op.long_inverse_frequencies.push_back(f / 3.0f);
          }
          op.long_beyond = 15;
        }
        const int64_t rows = test.cu_seqlens.back();
        const int64_t cols = (q + 2 * kv) * dim;
        test.op = &op;
        test.inputs.push_back(Random(rows, cols));
        test.inputs.push_back(RandomIds(rows, 4000, random_));
        test.outputs.push_back(Output(rows, cols));
        test.d_outputs.push_back(Random(rows, cols));
        CompareOp(test);
      }
    }
  }
}

TEST_P(CudaRows, RegroupHeads) {
  for (const auto& [q, kv, dim] :
       std::vector<std::array<int64_t, 3>>{{4, 2, 16}, {28, 4, 128}, {3, 3, 5}, {8, 1, 64}}) {
    RegroupHeads op;
    op.q_heads = q;
    op.kv_heads = kv;
    op.head_dim = dim;
    op.dtype = GetParam();
    const int64_t cols = (q + 2 * kv) * dim;
    OpCase test;
    test.op = &op;
    test.inputs.push_back(Random(45, cols));
    test.outputs.push_back(Output(45, cols));
    test.d_outputs.push_back(Random(45, cols));
    CompareOp(test);
  }
}

TEST_P(CudaRows, GatherRows) {
  for (const int64_t hidden : {8, 100, 3584, 33}) {
    GatherRows op;
    op.hidden = hidden;
    op.dtype = GetParam();
    OpCase test;
    test.op = &op;
    test.inputs.push_back(Random(50, hidden));
    test.inputs.push_back(RandomIds(17, 50, random_));
    test.outputs.push_back(Output(17, hidden));
    CompareForward(test);
  }
}

TEST_P(CudaRows, Embedding) {
  for (const auto& [rows, vocab, hidden] : std::vector<std::array<int64_t, 3>>{{1, 5, 8},
                                                                               {700, 11, 64},
                                                                               {300, 5000, 100},
                                                                               {513, 40, 4104},
                                                                               {64, 3, 33},
                                                                               {9000, 300, 72}}) {
    Embedding op;
    op.vocab_size = vocab;
    op.hidden = hidden;
    op.dtype = GetParam();
    OpCase test;
    test.op = &op;
    test.inputs.push_back(RandomIds(rows, vocab, random_));
    test.weights.push_back(Random(vocab, hidden));
    test.outputs.push_back(Output(rows, hidden));
    test.d_outputs.push_back(Random(rows, hidden));
    CompareOp(test);
    // Sums are made in token order here and there: the same bits.
    const Results forward = RunForward(test, 1);
    ExpectSameBits(RunBackwardCuda(test, forward, nullptr).d_weights,
                   RunBackward(test, forward, 1, nullptr).d_weights, "host and device");
  }
}

TEST(CudaFaults, ATokenOutsideTheVocabularyIsReportedOnce) {
  Embedding op;
  op.vocab_size = 10;
  op.hidden = 8;
  std::mt19937 random(1);
  OpCase test;
  test.op = &op;
  test.inputs.push_back(Buffer::Of(DType::kI32, 3, 1, {1, 10, 2}));
  test.weights.push_back(Buffer::Random(DType::kF32, 10, 8, random));
  test.outputs.push_back({DType::kF32, 3, 8});
  try {
    RunForwardCuda(test);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("token id 10 is outside"));
  }
  TheGpu().device().Synchronize();
}

}  // namespace
}  // namespace lazytrain::testing
