#include "ops/cpu/vector_math.h"

#include <gtest/gtest.h>

#include <vector>

namespace lazytrain::cpu {
namespace {

TEST(VectorMath, ExpIsWithinTwoUlpOfDouble) {
  double worst = 0.0;
  for (float x = -87.3f; x < 88.72f; x = std::nextafter(x + 1.1e-4f, 100.0f)) {
    const double expected = std::exp(static_cast<double>(x));
    const double ulp = std::ldexp(1.0, std::ilogb(expected) - 23);
    worst = std::max(worst, std::abs(static_cast<double>(Exp(x)) - expected) / ulp);
  }
  EXPECT_LT(worst, 1.1);
  EXPECT_GT(worst, 0.4);  // the measure itself
}

TEST(VectorMath, ExpAtItsEnds) {
  EXPECT_EQ(Exp(0.0f), 1.0f);
  EXPECT_EQ(Exp(-0.0f), 1.0f);
  EXPECT_EQ(Exp(-INFINITY), 0.0f);
  EXPECT_EQ(Exp(-1e30f), 0.0f);
  EXPECT_EQ(Exp(INFINITY), INFINITY);
  EXPECT_EQ(Exp(88.73f), INFINITY);
  EXPECT_LT(Exp(88.72f), INFINITY);
  EXPECT_TRUE(std::isnan(Exp(NAN)));
  // Below the normal numbers: within one of the smallest.
  EXPECT_NEAR(Exp(-100.0f), std::exp(-100.0), 0x1p-149);
}

TEST(VectorMath, SumsAndMaximaOfEveryLength) {
  for (int64_t count = 0; count < 70; ++count) {
    std::vector<float> values(static_cast<size_t>(count));
    double sum = 0.0;
    float largest = std::numeric_limits<float>::lowest();
    for (int64_t i = 0; i < count; ++i) {
      values[i] = static_cast<float>((i * 37) % 64) - 80.0f;
      sum += values[i];
      largest = std::max(largest, values[i]);
    }
    EXPECT_EQ(LaneSum(count, [&](int64_t i) { return values[i]; }), sum);
    EXPECT_EQ(Max(values.data(), count), largest);
  }
}

}  // namespace
}  // namespace lazytrain::cpu
