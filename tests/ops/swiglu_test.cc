#include "ops/swiglu.h"

#include "tests/ops/reference.h"

namespace lazytrain::testing {
namespace {

OpCase MakeCase(const Swiglu& op, int64_t rows, double scale = 2.0) {
  std::mt19937 random(static_cast<uint32_t>(rows * 31 + op.intermediate));
  OpCase test;
  test.op = &op;
  test.inputs = {Buffer::Random(op.dtype, rows, 2 * op.intermediate, random, scale)};
  test.outputs = {{op.dtype, rows, op.intermediate}};
  test.d_outputs = {Buffer::Random(op.dtype, rows, op.intermediate, random)};
  test.reference = SwigluReference(op);
  return test;
}

TEST(SwigluKernel, MatchesReference) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [rows, n] : {std::pair{0, 8}, {1, 1}, {7, 37}, {300, 96}, {65, 1024}}) {
      Swiglu op;
      op.intermediate = n;
      op.dtype = dtype;
      CheckOp(MakeCase(op, rows));
    }
  }
}

TEST(SwigluKernel, SaturatesWithoutNan) {
  Swiglu op;
  op.intermediate = 16;
  CheckOp(MakeCase(op, 40, 60.0));
}

TEST(SwigluKernel, ReferenceGradients) {
  Swiglu op;
  op.intermediate = 5;
  CheckReference(MakeCase(op, 3));
}

}  // namespace
}  // namespace lazytrain::testing
