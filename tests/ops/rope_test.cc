#include "ops/rope.h"

#include "tests/ops/reference.h"

namespace lazytrain::testing {
namespace {

Rope MakeOp(int64_t head_dim, int64_t rotary, DType dtype) {
  Rope op;
  op.q_heads = 4;
  op.kv_heads = 2;
  op.head_dim = head_dim;
  op.scaling = 1.25f;
  op.dtype = dtype;
  for (int64_t i = 0; i < rotary / 2; ++i) {
    op.inverse_frequencies.push_back(
        static_cast<float>(std::pow(10000.0, -2.0 * static_cast<double>(i) / rotary)));
  }
  return op;
}

OpCase MakeCase(const Rope& op, int64_t rows) {
  std::mt19937 random(static_cast<uint32_t>(rows * 31 + op.head_dim));
  OpCase test;
  test.op = &op;
  const int64_t cols = (op.q_heads + 2 * op.kv_heads) * op.head_dim;
  std::vector<double> positions(static_cast<size_t>(rows));
  for (double& position : positions) position = static_cast<double>(random() % 131072);
  test.inputs = {Buffer::Random(op.dtype, rows, cols, random),
                 Buffer::Of(DType::kI32, rows, 1, positions)};
  test.outputs = {{op.dtype, rows, cols}};
  test.d_outputs = {Buffer::Random(op.dtype, rows, cols, random)};
  test.reference = RopeReference(op);
  return test;
}

TEST(RopeKernel, MatchesReference) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    // Whole heads, part of a head, and more frequencies than are held at once.
    for (const auto& [head_dim, rotary] : {std::pair{16, 16}, {80, 20}, {128, 128}, {256, 256}}) {
      for (const int64_t rows : {0, 1, 77}) {
        const Rope op = MakeOp(head_dim, rotary, dtype);
        CheckOp(MakeCase(op, rows));
      }
    }
  }
}

TEST(RopeKernel, BackwardFillsASeparateBuffer) {
  const Rope op = MakeOp(16, 8, DType::kF32);
  OpCase test = MakeCase(op, 9);
  const ReferenceGradients expected =
      op.in_place() ? test.reference.backward(ValuesOf(test.inputs), {}, ValuesOf(test.d_outputs))
                    : ReferenceGradients{};
  for (const bool accumulate : {false, true}) {
    std::mt19937 random(3);
    Buffer d_qkv = Buffer::Random(DType::kF32, 9, test.inputs[0].cols(), random);
    std::vector<double> sum = expected.inputs[0];
    if (accumulate) AddTo(sum, d_qkv.values());
    OpArgs args;
    args.inputs = Views(test.inputs);
    args.d_outputs = Views(test.d_outputs);
    args.d_inputs = {d_qkv.view(), {}};
    args.accumulate_inputs = {accumulate, false};
    Call(test, Direction::kBackward, 2, args);
    ExpectClose(d_qkv, sum, "gradient");
  }
}

TEST(RopeKernel, ReferenceGradients) {
  const Rope op = MakeOp(8, 4, DType::kF32);
  CheckReference(MakeCase(op, 3));
}

}  // namespace
}  // namespace lazytrain::testing
