#include "ops/lm_head_loss.h"

#include "tests/ops/reference.h"

namespace lazytrain::testing {
namespace {

LmHeadLoss MakeOp(int64_t vocab_size, int64_t hidden, int64_t chunk_rows, DType dtype) {
  LmHeadLoss op;
  op.vocab_size = vocab_size;
  op.hidden = hidden;
  op.chunk_rows = chunk_rows;
  op.dtype = dtype;
  return op;
}

OpCase MakeCase(const LmHeadLoss& op, int64_t rows, double scale = 1.0) {
  std::mt19937 random(static_cast<uint32_t>(rows * 31 + op.hidden));
  OpCase test;
  test.op = &op;
  std::vector<double> targets(static_cast<size_t>(rows));
  for (double& target : targets) {
    target = random() % 4 == 0 ? -100.0 : static_cast<double>(random() % op.vocab_size);
  }
  test.inputs = {Buffer::Random(op.dtype, rows, op.hidden, random),
                 Buffer::Of(DType::kI32, rows, 1, targets),
                 Buffer::Random(DType::kF32, rows, 1, random)};
  test.weights = {Buffer::Random(op.dtype, op.vocab_size, op.hidden, random, scale)};
  test.outputs = {{DType::kF32, rows, 1}};
  test.reference = LmHeadLossReference(op);
  return test;
}

TEST(LmHeadLossKernel, MatchesReference) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t chunk : {16, 64, 1024}) {
      for (const auto& [rows, vocab] : {std::pair{0, 30}, {1, 7}, {65, 333}, {100, 1500}}) {
        const LmHeadLoss op = MakeOp(vocab, 40, chunk, dtype);
        CheckOp(MakeCase(op, rows));
      }
    }
  }
}

TEST(LmHeadLossKernel, BackwardComputesTheSameLosses) {
  const LmHeadLoss op = MakeOp(333, 24, 32, DType::kF32);
  const OpCase test = MakeCase(op, 70);
  const Results forward = RunForward(test, 1);
  Results blank;
  blank.outputs = {Buffer(DType::kF32, 70, 1)};
  EXPECT_TRUE(RunBackward(test, blank, 2, nullptr).outputs[0].SameBits(forward.outputs[0]));
}

TEST(LmHeadLossKernel, LargeLogits) {
  const LmHeadLoss op = MakeOp(200, 32, 32, DType::kF32);
  CheckOp(MakeCase(op, 40, 30.0));
}

TEST(LmHeadLossKernel, UntrainedTokensHaveNoLossAndNoGradient) {
  const LmHeadLoss op = MakeOp(50, 16, 8, DType::kBF16);
  OpCase test = MakeCase(op, 20);
  test.inputs[1] = Buffer::Of(DType::kI32, 20, 1, std::vector<double>(20, -1.0));
  const Results results = RunBackward(test, RunForward(test, 1), 2, nullptr);
  for (const Buffer* buffer : {&results.outputs[0], &results.d_inputs[0], &results.d_weights[0]}) {
    for (const double value : buffer->values()) ASSERT_EQ(value, 0.0);
  }
}

TEST(LmHeadLossKernel, ReferenceGradients) {
  const LmHeadLoss op = MakeOp(11, 6, 4, DType::kF32);
  CheckReference(MakeCase(op, 5));
}

}  // namespace
}  // namespace lazytrain::testing
