#include "ops/linear.h"

#include "tests/ops/reference.h"

namespace lazytrain::testing {
namespace {

struct Sizes {
  int64_t rows;
  int64_t in_features;
  int64_t out_features;
};

OpCase MakeCase(const Linear& op, int64_t rows) {
  std::mt19937 random(static_cast<uint32_t>(rows * 31 + op.in_features));
  OpCase test;
  test.op = &op;
  test.inputs = {Buffer::Random(op.dtype, rows, op.in_features, random)};
  test.weights = {Buffer::Random(op.dtype, op.out_features, op.in_features, random)};
  if (op.has_residual) {
    test.inputs.push_back(Buffer::Random(op.output_dtype, rows, op.out_features, random));
  }
  if (op.has_bias) test.weights.push_back(Buffer::Random(op.dtype, 1, op.out_features, random));
  test.outputs = {{op.output_dtype, rows, op.out_features}};
  test.d_outputs = {Buffer::Random(op.output_dtype, rows, op.out_features, random)};
  test.reference = LinearReference(op);
  return test;
}

Linear MakeOp(const Sizes& sizes, bool extras, DType dtype, DType output_dtype) {
  Linear op;
  op.in_features = sizes.in_features;
  op.out_features = sizes.out_features;
  op.has_bias = extras;
  op.has_residual = extras;
  op.dtype = dtype;
  op.output_dtype = output_dtype;
  return op;
}

TEST(LinearKernel, MatchesReference) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const bool extras : {false, true}) {
      for (const Sizes& sizes : {Sizes{0, 8, 8},
                                 {1, 1, 1},
                                 {1, 40, 100},
                                 {5, 9, 17},
                                 {300, 33, 65},
                                 {129, 400, 70},
                                 {64, 96, 450}}) {
        const Linear op = MakeOp(sizes, extras, dtype, dtype);
        CheckOp(MakeCase(op, sizes.rows));
      }
    }
  }
}

TEST(LinearKernel, ShortOperandsMayGiveFloat32) {
  const Linear op = MakeOp({50, 48, 80}, true, DType::kBF16, DType::kF32);
  CheckOp(MakeCase(op, 50));
}

TEST(LinearKernel, LeavesAResidualGradientThatSharesItsBuffer) {
  const Linear op = MakeOp({20, 16, 24}, true, DType::kF32, DType::kF32);
  OpCase test = MakeCase(op, 20);
  const Buffer before = test.d_outputs[0];
  Buffer d_x(DType::kF32, 20, 16);
  OpArgs args;
  args.inputs = Views(test.inputs);
  args.weights = Views(test.weights);
  args.d_outputs = Views(test.d_outputs);
  args.d_inputs = {d_x.view(), args.d_outputs[0]};
  args.accumulate_inputs = {false, false};
  args.d_weights = {{}, {}};
  args.accumulate_weights = {false, false};
  Call(test, Direction::kBackward, 2, args);
  EXPECT_TRUE(test.d_outputs[0].SameBits(before));
  const ReferenceGradients expected = test.reference.backward(
      ValuesOf(test.inputs), ValuesOf(test.weights), ValuesOf(test.d_outputs));
  ExpectClose(d_x, expected.inputs[0], "gradient of x");
}

TEST(LinearKernel, ReferenceGradients) {
  const Linear op = MakeOp({4, 5, 6}, true, DType::kF32, DType::kF32);
  CheckReference(MakeCase(op, 4));
}

}  // namespace
}  // namespace lazytrain::testing
