#include "ops/embedding.h"

#include <gmock/gmock.h>

#include "core/error.h"
#include "tests/ops/reference.h"

namespace lazytrain::testing {
namespace {

OpCase MakeCase(const Embedding& op, int64_t rows) {
  std::mt19937 random(static_cast<uint32_t>(rows * 31 + op.hidden));
  OpCase test;
  test.op = &op;
  std::vector<double> ids(static_cast<size_t>(rows));
  for (double& id : ids) id = static_cast<double>(random() % op.vocab_size);
  test.inputs = {Buffer::Of(DType::kI32, rows, 1, ids)};
  test.weights = {Buffer::Random(op.dtype, op.vocab_size, op.hidden, random)};
  test.outputs = {{op.dtype, rows, op.hidden}};
  test.d_outputs = {Buffer::Random(op.dtype, rows, op.hidden, random)};
  test.reference = EmbeddingReference(op);
  return test;
}

TEST(EmbeddingKernel, MatchesReference) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [rows, n] : {std::pair{0, 8}, {1, 3}, {300, 130}, {700, 64}}) {
      Embedding op;
      op.vocab_size = 29;
      op.hidden = n;
      op.dtype = dtype;
      CheckOp(MakeCase(op, rows));
    }
  }
}

TEST(EmbeddingKernel, RefusesAnIdOutsideTheTable) {
  Embedding op;
  op.vocab_size = 10;
  op.hidden = 4;
  for (const double id : {-1.0, 10.0}) {
    OpCase test = MakeCase(op, 2);
    test.inputs[0] = Buffer::Of(DType::kI32, 2, 1, {3.0, id});
    try {
      RunForward(test, 2);
      FAIL() << "no error for id " << id;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("outside the model's vocabulary of 10"));
    }
  }
}

}  // namespace
}  // namespace lazytrain::testing
