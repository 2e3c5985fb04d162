// Times between and beyond what was measured.
#include "plan/cost_model.h"

#include <gtest/gtest.h>

#include "ops/planned_op.h"

namespace lazytrain {
namespace {

RowCounts Rows(int64_t tokens) {
  RowCounts rows;
  rows.tokens = tokens;
  return rows;
}

class CostModelTest : public testing::Test {
 protected:
  CostModelTest() {
    op_.name = "op";
    op_.extent = Extent::kTokens;
    op_.flops = 1e6;
    HardwareRates rates;
    rates.gemm_flops = 1e9;
    rates.launch_seconds = 0;
    cost_ = CostModel(rates);
  }
  double Seconds(int64_t tokens) const {
    return cost_.OpSeconds(op_, Direction::kForward, Rows(tokens));
  }
  void Measure(int64_t tokens, double seconds) {
    cost_.SetMeasured(op_, Direction::kForward, Rows(tokens), seconds);
  }

  PlannedOp op_;
  CostModel cost_;
};

TEST_F(CostModelTest, OneMeasurementScales) {
  EXPECT_DOUBLE_EQ(Seconds(100), 0.1);
  Measure(100, 0.3);
  EXPECT_DOUBLE_EQ(Seconds(100), 0.3);
  EXPECT_DOUBLE_EQ(Seconds(50), 0.15);
  EXPECT_DOUBLE_EQ(cost_.OpSeconds(op_, Direction::kBackward, Rows(100)), 0.1 * op_.backward_ratio);
}

TEST_F(CostModelTest, BetweenTwoLiesALine) {
  Measure(400, 0.6);
  Measure(100, 0.3);
  EXPECT_DOUBLE_EQ(Seconds(100), 0.3);
  EXPECT_DOUBLE_EQ(Seconds(250), 0.45);
  EXPECT_DOUBLE_EQ(Seconds(400), 0.6);
  EXPECT_DOUBLE_EQ(Seconds(50), 0.15);
  EXPECT_DOUBLE_EQ(Seconds(800), 1.2);
  Measure(400, 1.2);  // in place of the other
  EXPECT_DOUBLE_EQ(Seconds(400), 1.2);
}

TEST_F(CostModelTest, ACorrectionHoldsForEverySize) {
  cost_.Correct(op_, Direction::kForward, Rows(100), 2.0);
  EXPECT_DOUBLE_EQ(Seconds(100), 0.2);
  Measure(400, 0.6);
  cost_.Correct(op_, Direction::kForward, Rows(400), 0.5);
  EXPECT_DOUBLE_EQ(Seconds(400), 0.3);
  EXPECT_DOUBLE_EQ(Seconds(100), 0.1);
}

}  // namespace
}  // namespace lazytrain
