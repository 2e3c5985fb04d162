#include "ops/regroup_heads.h"

#include "tests/ops/reference.h"

namespace lazytrain::testing {
namespace {

RegroupHeads MakeOp(int64_t head_dim, DType dtype) {
  RegroupHeads op;
  op.q_heads = 4;
  op.kv_heads = 2;
  op.head_dim = head_dim;
  op.dtype = dtype;
  return op;
}

// Two groups of q, q, k, v.
constexpr std::array<int64_t, 8> kSource = {0, 1, 4, 5, 2, 6, 3, 7};

OpCase MakeCase(const RegroupHeads& op, int64_t rows) {
  std::mt19937 random(static_cast<uint32_t>(rows));
  const int64_t cols = 8 * op.head_dim;
  OpCase test;
  test.op = &op;
  test.inputs = {Buffer::Random(op.dtype, rows, cols, random)};
  test.outputs = {{op.dtype, rows, cols}};
  test.d_outputs = {Buffer::Random(op.dtype, rows, cols, random)};
  const int64_t d = op.head_dim;
  const auto source = [=](size_t at) {
    const auto head = at / static_cast<size_t>(d) % 8;
    return at - head * d + static_cast<size_t>(kSource[head] * d);
  };
  test.reference = {[=](const Arrays& inputs, const Arrays&) -> Arrays {
                      Array y(inputs[0].size());
                      for (size_t at = 0; at < y.size(); ++at) y[at] = inputs[0][source(at)];
                      return {y};
                    },
                    [=](const Arrays& inputs, const Arrays&, const Arrays& d_outputs) {
                      Array d_x(inputs[0].size());
                      for (size_t at = 0; at < d_x.size(); ++at) {
                        d_x[source(at)] = d_outputs[0][at];
                      }
                      return ReferenceGradients{{d_x}, {}};
                    }};
  return test;
}

TEST(RegroupHeads, MatchesReference) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t rows : {0, 1, 50}) {
      const RegroupHeads op = MakeOp(3, dtype);
      CheckOp(MakeCase(op, rows));
    }
  }
}

TEST(RegroupHeads, OneHeadOfKeysForEach) {
  RegroupHeads op = MakeOp(1, DType::kF32);
  op.q_heads = 2;
  OpCase test;
  test.op = &op;
  test.inputs = {Buffer::Of(DType::kF32, 1, 6, {1, 2, 3, 4, 5, 6})};
  test.outputs = {{DType::kF32, 1, 6}};
  EXPECT_EQ(RunForward(test, 1).outputs[0].values(), (std::vector<double>{1, 4, 2, 5, 3, 6}));
}

}  // namespace
}  // namespace lazytrain::testing
