#include "ops/rms_norm.h"

#include "tests/ops/reference.h"

namespace lazytrain::testing {
namespace {

OpCase MakeCase(const RmsNorm& op, int64_t rows, DType scale_dtype) {
  std::mt19937 random(static_cast<uint32_t>(rows * 31 + op.hidden));
  OpCase test;
  test.op = &op;
  test.inputs = {Buffer::Random(op.dtype, rows, op.hidden, random, 3.0)};
  test.weights = {Buffer::Random(scale_dtype, 1, op.hidden, random)};
  test.outputs = {{op.dtype, rows, op.hidden}};
  test.d_outputs = {Buffer::Random(op.dtype, rows, op.hidden, random)};
  test.reference = RmsNormReference(op);
  return test;
}

TEST(RmsNormKernel, MatchesReference) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [rows, n] : {std::pair{0, 8}, {1, 3}, {7, 37}, {300, 64}, {65, 896}}) {
      RmsNorm op;
      op.hidden = n;
      op.dtype = dtype;
      CheckOp(MakeCase(op, rows, dtype));
    }
  }
}

TEST(RmsNormKernel, TakesAFloat32ScaleBesideShortValues) {
  RmsNorm op;
  op.hidden = 40;
  op.dtype = DType::kBF16;
  CheckOp(MakeCase(op, 70, DType::kF32));
}

TEST(RmsNormKernel, EpsilonKeepsARowOfZerosFinite) {
  RmsNorm op;
  op.hidden = 24;
  OpCase test = MakeCase(op, 2, DType::kF32);
  test.inputs[0] = Buffer::Of(DType::kF32, 2, 24, std::vector<double>(48, 0.0));
  CheckOp(test);
}

TEST(RmsNormKernel, ReferenceGradients) {
  RmsNorm op;
  op.hidden = 6;
  op.eps = 1e-2f;
  CheckReference(MakeCase(op, 3, DType::kF32));
}

}  // namespace
}  // namespace lazytrain::testing
