#include "ops/attention.h"

#include <numeric>

#include "tests/ops/attention_reference.h"

namespace lazytrain::testing {
namespace {

Attention MakeOp(int64_t q_heads, int64_t kv_heads, int64_t head_dim, int64_t window, DType dtype) {
  Attention op;
  op.q_heads = q_heads;
  op.kv_heads = kv_heads;
  op.head_dim = head_dim;
  op.window = window;
  op.dtype = dtype;
  op.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  return op;
}

OpCase MakeCase(const Attention& op, const std::vector<int32_t>& lengths, double scale = 1.0) {
  OpCase test;
  test.op = &op;
  for (const int32_t length : lengths) test.cu_seqlens.push_back(test.cu_seqlens.back() + length);
  const int64_t tokens = test.cu_seqlens.back();
  std::mt19937 random(static_cast<uint32_t>(tokens * 31 + op.head_dim));
  const int64_t cols = (op.q_heads + 2 * op.kv_heads) * op.head_dim;
  test.inputs = {Buffer::Random(op.dtype, tokens, cols, random, scale)};
  test.outputs = {{op.dtype, tokens, op.q_heads * op.head_dim}, {DType::kF32, tokens, op.q_heads}};
  test.d_outputs = {Buffer::Random(op.dtype, tokens, op.q_heads * op.head_dim, random)};
  const AttentionReference reference(op, test.cu_seqlens);
  test.reference.forward = [=](const Arrays& inputs, const Arrays&) {
    return reference.Forward(inputs);
  };
  test.reference.backward = [=](const Arrays& inputs, const Arrays&, const Arrays& d_outputs) {
    return reference.Backward(inputs, d_outputs);
  };
  return test;
}

const std::vector<std::vector<int32_t>>& DocumentLengths() {
  static const std::vector<std::vector<int32_t>> kLengths = {{},    {1},      {1, 1, 2, 0, 3},
                                                             {128}, {129, 5}, {300, 1, 127, 64}};
  return kLengths;
}

TEST(AttentionKernel, MatchesReference) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const std::vector<int32_t>& lengths : DocumentLengths()) {
      for (const int64_t head_dim : {16, 80}) {
        const Attention op = MakeOp(4, 2, head_dim, 0, dtype);
        CheckOp(MakeCase(op, lengths));
      }
    }
  }
}

TEST(AttentionKernel, MatchesReferenceWithLargeHeads) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Attention op = MakeOp(3, 1, 128, 0, dtype);
    CheckOp(MakeCase(op, {140, 33}));
    const Attention largest = MakeOp(1, 1, 256, 0, dtype);
    CheckOp(MakeCase(largest, {131}));
  }
}

TEST(AttentionKernel, MatchesReferenceWithAWindow) {
  for (const int64_t window : {1, 2, 50, 128, 129, 200, 1000}) {
    const Attention op = MakeOp(2, 2, 16, window, DType::kF32);
    CheckOp(MakeCase(op, {400, 3, 130}));
  }
}

TEST(AttentionKernel, MatchesReferenceWithLinearBiases) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const std::vector<int32_t>& lengths : DocumentLengths()) {
      for (const int64_t window : {0, 70}) {
        Attention op = MakeOp(6, 2, 20, window, dtype);
        op.slopes = {0.5f, 0.25f, 0.0f, 0.004f, 0.9f, 0.0625f};
        CheckOp(MakeCase(op, lengths));
      }
    }
  }
}

// Scores of 0 leave the biases alone: with a slope of ln 2, every key counts half of the next one.
TEST(AttentionKernel, LinearBiasesByHand) {
  Attention op = MakeOp(1, 1, 2, 0, DType::kF32);
  op.slopes = {std::log(2.0f)};
  OpCase test = MakeCase(op, {1, 3});
  // Rows of query, key and value; the first document must not reach into the second.
  test.inputs[0] = Buffer::Of(DType::kF32, 4, 6, {0, 0, 5, 7, 99, 99,  //
                                                  0, 0, 1, 2, 8,  0,   //
                                                  0, 0, 3, 4, 0,  8,   //
                                                  0, 0, 5, 6, 4,  4});
  const Results results = RunForward(test, 1);
  const std::vector<double> attn = results.outputs[0].values();
  const std::vector<double> expected = {99, 99, 8, 0, 8.0 / 3, 16.0 / 3, 24.0 / 7, 32.0 / 7};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(attn[i], expected[i], 1e-5) << i;
  const std::vector<double> lse = results.outputs[1].values();
  EXPECT_NEAR(lse[3], std::log(1.0 + 0.5 + 0.25), 1e-6);
}

TEST(AttentionKernel, SignatureTellsLinearBiases) {
  Attention op = MakeOp(2, 1, 16, 0, DType::kF32);
  const std::string without = op.Signature();
  op.slopes = {0.5f, 0.25f};
  const std::string with = op.Signature();
  op.slopes = {0.5f, 0.125f};
  EXPECT_NE(without, with);
  EXPECT_NE(op.Signature(), with);
}

TEST(AttentionKernel, LargeScoresOfEitherSign) {
  Attention op = MakeOp(2, 1, 16, 0, DType::kF32);
  op.scale = 1.0f;
  const OpCase test = MakeCase(op, {200}, 4.0);
  const Results forward = RunForward(test, 1);
  const Arrays expected = test.reference.forward(ValuesOf(test.inputs), {});
  EXPECT_LT(RelativeError(forward.outputs[0].values(), expected[0]), 2e-5);
  EXPECT_LT(RelativeError(forward.outputs[1].values(), expected[1]), 1e-6);
  const Results backward = RunBackward(test, forward, 2, nullptr);
  const ReferenceGradients gradients =
      test.reference.backward(ValuesOf(test.inputs), {}, ValuesOf(test.d_outputs));
  EXPECT_LT(RelativeError(backward.d_inputs[0].values(), gradients.inputs[0]), 1e-4);
}

// Every key alike and every score far below zero: the softmax must not vanish.
TEST(AttentionKernel, VeryNegativeScores) {
  Attention op = MakeOp(1, 1, 16, 0, DType::kF32);
  OpCase test = MakeCase(op, {150});
  std::vector<double> qkv(150 * 48, 0.0);
  for (int64_t t = 0; t < 150; ++t) {
    qkv[t * 48] = 1e4;
    qkv[t * 48 + 16] = -1e4;
    for (int64_t i = 32; i < 48; ++i) qkv[t * 48 + i] = 3.0;
  }
  test.inputs[0] = Buffer::Of(DType::kF32, 150, 48, qkv);
  const Results results = RunForward(test, 1);
  for (const double value : results.outputs[0].values()) ASSERT_NEAR(value, 3.0, 1e-5);
  for (const double lse : results.outputs[1].values()) ASSERT_NEAR(lse, -2.5e7, 10.0);
}

// The last row of a long document, by a direct sum.
TEST(AttentionKernel, LongDocument) {
  const int32_t length = 9001;
  const Attention op = MakeOp(1, 1, 16, 0, DType::kF32);
  const OpCase test = MakeCase(op, {length});
  const std::vector<double> qkv = test.inputs[0].values();
  const Results results = RunForward(test, 2);
  const double* query = qkv.data() + (length - 1) * 48;
  double sum = 0.0;
  std::vector<double> expected(16, 0.0);
  for (int64_t s = 0; s < length; ++s) {
    const double* key = qkv.data() + s * 48 + 16;
    const double p = std::exp(std::inner_product(query, query + 16, key, 0.0) * op.scale);
    sum += p;
    for (int64_t i = 0; i < 16; ++i) expected[i] += p * key[16 + i];
  }
  const std::vector<double> attn = results.outputs[0].values();
  for (int64_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(attn[(length - 1) * 16 + i], expected[i] / sum, 1e-6);
  }
  EXPECT_NEAR(results.outputs[1].values().back(), std::log(sum), 1e-5);
}

TEST(AttentionKernel, ReferenceGradients) {
  const Attention op = MakeOp(4, 2, 6, 3, DType::kF32);
  CheckReference(MakeCase(op, {5, 1, 7}));
  Attention biased = op;
  biased.slopes = {0.5f, 0.25f, 0.125f, 0.0625f};
  CheckReference(MakeCase(biased, {5, 1, 7}));
}

}  // namespace
}  // namespace lazytrain::testing
