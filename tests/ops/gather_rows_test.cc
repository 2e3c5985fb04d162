#include "ops/gather_rows.h"

#include "tests/ops/harness.h"

namespace lazytrain::testing {
namespace {

TEST(GatherRowsKernel, CopiesTheChosenRows) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t selected : {0, 1, 50}) {
      GatherRows op;
      op.hidden = 33;
      op.dtype = dtype;
      std::mt19937 random(5);
      OpCase test;
      test.op = &op;
      std::vector<double> rows(static_cast<size_t>(selected));
      for (double& row : rows) row = static_cast<double>(random() % 20);
      test.inputs = {Buffer::Random(dtype, 20, op.hidden, random),
                     Buffer::Of(DType::kI32, selected, 1, rows)};
      test.outputs = {{dtype, selected, op.hidden}};
      test.reference.forward = [&](const Arrays& inputs, const Arrays&) -> Arrays {
        std::vector<double> y;
        for (const double row : inputs[1]) {
          const double* source = inputs[0].data() + static_cast<int64_t>(row) * op.hidden;
          y.insert(y.end(), source, source + op.hidden);
        }
        EXPECT_EQ(RunForward(test, 1).outputs[0].values(), y);
        return {y};
      };
      CheckForward(test);
    }
  }
}

}  // namespace
}  // namespace lazytrain::testing
