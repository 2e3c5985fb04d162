// Elementary functions and sums over rows, written so that the compiler turns loops over them into
// vector code: no branches, no library calls, sums in explicit lanes (their order is fixed).
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace lazytrain::cpu {

// e^x, error below 1.1 ulp; 0 below -103.98, infinity above 88.73, NaN of NaN. Cody and Waite's
// reduction x = n ln 2 + r, then the Taylor polynomial of e^r, |r| <= ln(2) / 2.
inline float Exp(float x) {
  x = x < -106.0f ? -106.0f : x;
  x = x > 90.0f ? 90.0f : x;
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
  constexpr float kRound = 12582912.0f;
  const float shifted = std::fma(x, 1.44269504f, kRound);
  const float n = shifted - kRound;
  float r = std::fma(n, -0.693359375f, x);
  r = std::fma(n, 2.12194440e-4f, r);
  float p = 1.0f / 5040.0f;
  p = std::fma(p, r, 1.0f / 720.0f);
  p = std::fma(p, r, 1.0f / 120.0f);
  p = std::fma(p, r, 1.0f / 24.0f);
  p = std::fma(p, r, 1.0f / 6.0f);
  p = std::fma(p, r, 0.5f);
  p = std::fma(p * r, r, r) + 1.0f;
  // Times 2^n in two factors, since n may lie outside the exponents of either alone.
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRound);
  const int32_t half = exponent >> 1;
  const float scale1 = std::bit_cast<float>((half + 127) << 23);
  const float scale2 = std::bit_cast<float>((exponent - half + 127) << 23);
  return p * scale1 * scale2;
}

inline float Sigmoid(float x) { return 1.0f / (1.0f + Exp(-x)); }

inline constexpr int64_t kLanes = 16;

inline float SumOfLanes(const std::array<float, kLanes>& lanes) {
  std::array<float, kLanes> s = lanes;
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t i = 0; i < width; ++i) s[i] += s[i + width];
  }
  return s[0];
}

// Sum over [0, count) of term(i): lane i % 16 takes term i.
template <typename Term>
inline float LaneSum(int64_t count, const Term& term) {
  std::array<float, kLanes> lanes = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
#pragma GCC unroll 16
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  }
  for (int64_t lane = 0; i + lane < count; ++lane) lanes[lane] += term(i + lane);
  return SumOfLanes(lanes);
}

// Eight floats in a register: compilers make nothing good of a maximum over an array of lanes.
using Float8 = float __attribute__((vector_size(32)));

// The largest of `count` values that are not NaN; the lowest finite float if there are none.
inline float Max(const float* values, int64_t count) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  constexpr int kRegisters = 4;
  std::array<Float8, kRegisters> largest;
  largest.fill(Float8{} + kLowest);
  int64_t i = 0;
  for (; i + 8 * kRegisters <= count; i += 8 * kRegisters) {
    for (size_t k = 0; k < kRegisters; ++k) {
      Float8 next;
      std::memcpy(&next, values + i + 8 * static_cast<int64_t>(k), sizeof(next));
      largest[k] = next > largest[k] ? next : largest[k];
    }
  }
  for (size_t k = 1; k < kRegisters; ++k) {
    largest[0] = largest[k] > largest[0] ? largest[k] : largest[0];
  }
  float result = kLowest;
  for (; i < count; ++i) result = values[i] > result ? values[i] : result;
  for (int k = 0; k < 8; ++k) result = largest[0][k] > result ? largest[0][k] : result;
  return result;
}

}  // namespace lazytrain::cpu
