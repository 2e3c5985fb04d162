#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "device/cpu/cpu_lane_context.h"
#include "optim/adamw.h"
#include "optim/learning_rate.h"

namespace lazytrain {
namespace {

TEST(ClipFactor, AsTorch) {
  EXPECT_DOUBLE_EQ(ClipFactor(0.5, 1.0), 1.0);
  EXPECT_NEAR(ClipFactor(4.0, 1.0), 0.25, 1e-6);
  EXPECT_DOUBLE_EQ(ClipFactor(4.0, 0.0), 1.0);
}

TEST(LearningRate, ByHand) {
  LearningRateSettings s{1.0, "linear", 2, 10};
  EXPECT_DOUBLE_EQ(LearningRateAt(s, 0), 0.0);
  EXPECT_DOUBLE_EQ(LearningRateAt(s, 1), 0.5);
  EXPECT_DOUBLE_EQ(LearningRateAt(s, 2), 1.0);
  EXPECT_DOUBLE_EQ(LearningRateAt(s, 6), 0.5);
  s.scheduler = "cosine";
  EXPECT_NEAR(LearningRateAt(s, 6), 0.5, 1e-15);
  EXPECT_NEAR(LearningRateAt(s, 10), 0.0, 1e-15);
  s.scheduler = "constant";
  EXPECT_DOUBLE_EQ(LearningRateAt(s, 9), 1.0);
  s = {2.0, "wsd", 10, 100};
  EXPECT_DOUBLE_EQ(LearningRateAt(s, 50), 2.0);
  EXPECT_DOUBLE_EQ(LearningRateAt(s, 89), 2.0);
  EXPECT_NEAR(LearningRateAt(s, 95), 1.0, 1e-12);
  s.scheduler = "wavy";
  EXPECT_THROW(LearningRateAt(s, 50), Error);
}

// One parameter of `n` elements and its states.
struct Unit {
  explicit Unit(int64_t n, DType dtype)
      : parameters{{n, 0, 0, dtype, true}},
        weights(static_cast<size_t>(n * 4)),
        low(static_cast<size_t>(n), 0),
        m(static_cast<size_t>(n), 0.0f),
        v(m),
        gradient(m) {}

  AdamWArgs Args(const AdamWScalars& scalars) {
    return {&parameters, scalars,  weights.data(),  low.data(),
            m.data(),    v.data(), gradient.data(), DType::kF32};
  }

  std::vector<UnitParameter> parameters;
  std::vector<std::byte> weights;
  std::vector<int16_t> low;
  std::vector<float> m, v, gradient;
};

// Against the formula in double precision.
TEST(AdamW, FollowsTheFormula) {
  constexpr int64_t kSize = 1000;
  Random random(3);
  Unit unit(kSize, DType::kF32);
  auto* w = reinterpret_cast<float*>(unit.weights.data());
  std::vector<double> reference(kSize), m(kSize, 0), v(kSize, 0);
  for (int64_t i = 0; i < kSize; ++i) reference[i] = w[i] = static_cast<float>(random.Normal());
  const AdamWSettings settings{0.9, 0.95, 1e-8, 0.1};
  ThreadPool pool(2);
  CpuLaneContext context(pool);
  for (int step = 1; step <= 5; ++step) {
    for (int64_t i = 0; i < kSize; ++i) {
      unit.gradient[i] = static_cast<float>(random.Normal());
      const double g = 0.5 * unit.gradient[i];
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.95 * v[i] + 0.05 * g * g;
      const double m_hat = m[i] / (1 - std::pow(0.9, step));
      const double v_hat = v[i] / (1 - std::pow(0.95, step));
      reference[i] = reference[i] * (1 - 1e-2 * 0.1) - 1e-2 * m_hat / (std::sqrt(v_hat) + 1e-8);
    }
    HostUnitKernels().adamw(unit.Args(ScalarsOf(settings, 1e-2, step, 0.5)), context);
  }
  for (int64_t i = 0; i < kSize; ++i) ASSERT_NEAR(w[i], reference[i], 2e-6) << i;
}

// A bfloat16 weight with its 16 more bits is the float32 master, bit by bit.
TEST(AdamW, SplitMasterIsExact) {
  constexpr int64_t kSize = 70'000;
  Random random(4);
  Unit single(kSize, DType::kF32);
  Unit split(kSize, DType::kBF16);
  auto* w = reinterpret_cast<float*>(single.weights.data());
  auto* h = reinterpret_cast<BFloat16*>(split.weights.data());
  for (int64_t i = 0; i < kSize; ++i) {
    h[i] = ToBFloat16(static_cast<float>(random.Normal()));
    w[i] = ToFloat(h[i]);
  }
  ThreadPool one(1), three(3);
  CpuLaneContext context(one), wide(three);
  for (int step = 1; step <= 4; ++step) {
    for (int64_t i = 0; i < kSize; ++i) {
      single.gradient[i] = split.gradient[i] = static_cast<float>(random.Normal());
    }
    const AdamWScalars scalars = ScalarsOf({}, 1e-3, step, 1.0);
    HostUnitKernels().adamw(single.Args(scalars), context);
    HostUnitKernels().adamw(split.Args(scalars), wide);
  }
  for (int64_t i = 0; i < kSize; ++i) {
    const auto master =
        std::bit_cast<uint32_t>(w[i]) - static_cast<uint32_t>(int32_t{split.low[i]});
    ASSERT_EQ(master, uint32_t{h[i].bits} << 16) << i;
    ASSERT_LE(std::abs(ToFloat(h[i]) - w[i]), std::abs(w[i]) / 256 + 1e-37f) << i;
  }
}

TEST(RoundGradient, RoundsAndSumsTheStoredValues) {
  constexpr int64_t kSize = kNormChunk + 321;
  const std::vector<UnitParameter> parameters = {{kSize, 256, 0, DType::kBF16, true}};
  Random random(5);
  std::vector<float> accumulator(256 + kSize);
  for (float& x : accumulator) x = static_cast<float>(random.Normal());
  accumulator[0] = std::numeric_limits<float>::quiet_NaN();  // padding is never read
  std::vector<BFloat16> stored(accumulator.size());
  ASSERT_EQ(PartialSumCount(parameters), 2);
  double sums[2] = {};
  ThreadPool pool(2);
  CpuLaneContext context(pool);
  RoundGradientArgs args{&parameters, accumulator.data(), stored.data(), DType::kBF16, false, sums};
  HostUnitKernels().round_gradient(args, context);
  double expected = 0;
  for (int64_t i = 256; i < 256 + kSize; ++i) {
    ASSERT_EQ(stored[i].bits, ToBFloat16(accumulator[i]).bits);
    expected += double{ToFloat(stored[i])} * ToFloat(stored[i]);
  }
  EXPECT_NEAR(sums[0] + sums[1], expected, 1e-9 * expected);

  // In place: the same values and the same sums, to the bit.
  double in_place_sums[2] = {};
  args = {&parameters, accumulator.data(), accumulator.data(), DType::kBF16, true, in_place_sums};
  HostUnitKernels().round_gradient(args, context);
  EXPECT_EQ(in_place_sums[0], sums[0]);
  EXPECT_EQ(in_place_sums[1], sums[1]);
  for (int64_t i = 256; i < 256 + kSize; ++i) ASSERT_EQ(accumulator[i], ToFloat(stored[i]));
}

}  // namespace
}  // namespace lazytrain
