#include "ops/normalized_head.h"

#include "tests/ops/reference.h"

namespace lazytrain::testing {
namespace {

Array NormalizeRows(const Array& weight, int64_t cols) {
  Array result = weight;
  for (int64_t row = 0; row < RowsOf(weight, cols); ++row) {
    double sum = 0.0;
    for (int64_t i = 0; i < cols; ++i) sum += weight[row * cols + i] * weight[row * cols + i];
    for (int64_t i = 0; i < cols; ++i) result[row * cols + i] /= std::sqrt(sum);
  }
  return result;
}

// From the gradient of the normalised weight to that of the weight.
Array NormalizeRowsBackward(const Array& weight, const Array& d, int64_t cols) {
  Array result = d;
  for (int64_t row = 0; row < RowsOf(weight, cols); ++row) {
    const double* w = weight.data() + row * cols;
    double sum = 0.0;
    double dot = 0.0;
    for (int64_t i = 0; i < cols; ++i) {
      sum += w[i] * w[i];
      dot += w[i] * d[row * cols + i];
    }
    for (int64_t i = 0; i < cols; ++i) {
      result[row * cols + i] = (d[row * cols + i] - w[i] * dot / sum) / std::sqrt(sum);
    }
  }
  return result;
}

NormalizedLmHeadLoss MakeOp(int64_t vocab_size, int64_t hidden, DType dtype) {
  NormalizedLmHeadLoss op;
  op.loss.vocab_size = vocab_size;
  op.loss.hidden = hidden;
  op.loss.chunk_rows = 16;
  op.loss.dtype = dtype;
  return op;
}

OpCase MakeCase(const NormalizedLmHeadLoss& op, int64_t rows) {
  std::mt19937 random(static_cast<uint32_t>(rows));
  OpCase test;
  test.op = &op;
  std::vector<double> targets(static_cast<size_t>(rows));
  for (double& target : targets) target = static_cast<double>(random() % op.loss.vocab_size);
  test.inputs = {Buffer::Random(op.loss.dtype, rows, op.loss.hidden, random),
                 Buffer::Of(DType::kI32, rows, 1, targets),
                 Buffer::Random(DType::kF32, rows, 1, random)};
  test.weights = {Buffer::Random(op.loss.dtype, op.loss.vocab_size, op.loss.hidden, random, 0.3)};
  test.outputs = {{DType::kF32, rows, 1}};
  const Reference plain = LmHeadLossReference(op.loss);
  const int64_t n = op.loss.hidden;
  test.reference.forward = [=](const Arrays& inputs, const Arrays& weights) {
    return plain.forward(inputs, {NormalizeRows(weights[0], n)});
  };
  test.reference.backward = [=](const Arrays& inputs, const Arrays& weights,
                                const Arrays& d_outputs) {
    ReferenceGradients d = plain.backward(inputs, {NormalizeRows(weights[0], n)}, d_outputs);
    d.weights[0] = NormalizeRowsBackward(weights[0], d.weights[0], n);
    return d;
  };
  return test;
}

TEST(NormalizedHead, LossMatchesReference) {
  for (const auto& [rows, vocab] : {std::pair{1, 7}, {40, 90}}) {
    const NormalizedLmHeadLoss op = MakeOp(vocab, 24, DType::kF32);
    CheckOp(MakeCase(op, rows));
  }
}

TEST(NormalizedHead, ReferenceGradients) {
  const NormalizedLmHeadLoss op = MakeOp(9, 6, DType::kF32);
  CheckReference(MakeCase(op, 5));
}

TEST(NormalizedHead, LogitsByHand) {
  NormalizedLinear op;
  op.linear.in_features = 2;
  op.linear.out_features = 2;
  op.linear.extent = Extent::kSelected;
  OpCase test;
  test.op = &op;
  test.inputs = {Buffer::Of(DType::kF32, 1, 2, {10, 5})};
  test.weights = {Buffer::Of(DType::kF32, 2, 2, {3, 4, 0, 0.5})};
  test.outputs = {{DType::kF32, 1, 2}};
  const std::vector<double> logits = RunForward(test, 1).outputs[0].values();
  EXPECT_NEAR(logits[0], 10 * 0.6 + 5 * 0.8, 1e-5);
  EXPECT_NEAR(logits[1], 5.0, 1e-5);
}

}  // namespace
}  // namespace lazytrain::testing
