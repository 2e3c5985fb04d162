// The root mean square norm with a residual behind it, and with a scale stored as distance from 1.
#include "ops/rms_norm.h"
#include "tests/ops/reference.h"

namespace lazytrain::testing {
namespace {

RmsNorm MakeOp(int64_t hidden, DType dtype) {
  RmsNorm op;
  op.hidden = hidden;
  op.has_residual = true;
  op.scale_offset = 1.0f;
  op.dtype = dtype;
  return op;
}

OpCase MakeCase(const RmsNorm& op, int64_t rows) {
  std::mt19937 random(static_cast<uint32_t>(rows * 31 + op.hidden));
  OpCase test;
  test.op = &op;
  test.inputs = {Buffer::Random(op.dtype, rows, op.hidden, random, 3.0),
                 Buffer::Random(op.dtype, rows, op.hidden, random)};
  test.weights = {Buffer::Random(op.dtype, 1, op.hidden, random)};
  test.outputs = {{op.dtype, rows, op.hidden}};
  test.d_outputs = {Buffer::Random(op.dtype, rows, op.hidden, random)};
  const Reference plain = RmsNormReference(op);
  const auto shifted = [](Arrays weights) {
    for (double& scale : weights[0]) scale += 1.0;
    return weights;
  };
  test.reference.forward = [=](const Arrays& inputs, const Arrays& weights) {
    Arrays y = plain.forward(inputs, shifted(weights));
    AddTo(y[0], inputs[1]);
    return y;
  };
  test.reference.backward = [=](const Arrays& inputs, const Arrays& weights,
                                const Arrays& d_outputs) {
    ReferenceGradients d = plain.backward(inputs, shifted(weights), d_outputs);
    d.inputs.push_back(d_outputs[0]);
    return d;
  };
  return test;
}

TEST(RmsNormResidualKernel, MatchesReference) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [rows, n] : {std::pair{0, 8}, {1, 3}, {70, 64}}) {
      const RmsNorm op = MakeOp(n, dtype);
      CheckOp(MakeCase(op, rows));
    }
  }
}

TEST(RmsNormResidualKernel, LeavesAResidualGradientThatSharesItsBuffer) {
  const RmsNorm op = MakeOp(16, DType::kF32);
  OpCase test = MakeCase(op, 5);
  const std::vector<double> before = test.d_outputs[0].values();
  Buffer d_x(DType::kF32, 5, 16);
  Buffer d_scale(DType::kF32, 1, 16);
  OpArgs args;
  args.inputs = Views(test.inputs);
  args.weights = Views(test.weights);
  args.d_outputs = Views(test.d_outputs);
  args.d_inputs = {d_x.view(), args.d_outputs[0]};
  args.d_weights = {d_scale.view()};
  args.accumulate_inputs = {false, false};
  args.accumulate_weights = {false};
  Call(test, Direction::kBackward, 2, args);
  EXPECT_EQ(test.d_outputs[0].values(), before);
}

TEST(RmsNormResidualKernel, ReferenceGradients) {
  RmsNorm op = MakeOp(6, DType::kF32);
  op.eps = 1e-2f;
  CheckReference(MakeCase(op, 3));
}

}  // namespace
}  // namespace lazytrain::testing
