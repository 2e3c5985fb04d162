// One row (or one head of a row) of root mean square normalisation; shared by the ops that do it.
#pragma once

#include <cmath>
#include <cstdint>

#include "ops/cpu/rows.h"
#include "ops/cpu/vector_math.h"

namespace lazytrain::cpu {

// What is the same for every row.
struct RmsNormRow {
  int64_t hidden = 0;
  float eps = 0.0f;
  float scale_offset = 0.0f;
};

template <typename T>
float InverseRms(const T* x, int64_t hidden, float eps) {
  const float squares = LaneSum(hidden, [&](int64_t i) { return ToFloat(x[i]) * ToFloat(x[i]); });
  return 1.0f / std::sqrt(squares / static_cast<float>(hidden) + eps);
}

// `residual` may be null.
template <typename T, typename S>
void RmsNormForwardRow(const RmsNormRow& row, const T* x, const S* scale, const T* residual, T* y) {
  const float inverse = InverseRms(x, row.hidden, row.eps);
  const auto normed = [&](int64_t i) {
    return ToFloat(x[i]) * inverse * (ToFloat(scale[i]) + row.scale_offset);
  };
  if (residual == nullptr) {
    for (int64_t i = 0; i < row.hidden; ++i) y[i] = FromFloat<T>(normed(i));
  } else {
    for (int64_t i = 0; i < row.hidden; ++i) y[i] = FromFloat<T>(normed(i) + ToFloat(residual[i]));
  }
}

// With n = x / rms: d_x = (g - n mean(g n)) / rms, where g = d_y scale; d_scale += d_y n. d_x and
// d_scale may be null.
template <typename T, typename S>
void RmsNormBackwardRow(const RmsNormRow& row, const T* x, const S* scale, const T* d_y,
                        bool accumulate, T* d_x, float* d_scale) {
  const float inverse = InverseRms(x, row.hidden, row.eps);
  if (d_scale != nullptr) {
    for (int64_t i = 0; i < row.hidden; ++i) {
      d_scale[i] += ToFloat(d_y[i]) * (ToFloat(x[i]) * inverse);
    }
  }
  if (d_x == nullptr) return;
  const auto g = [&](int64_t i) {
    return ToFloat(d_y[i]) * (ToFloat(scale[i]) + row.scale_offset);
  };
  const float dot = LaneSum(row.hidden, [&](int64_t i) { return g(i) * ToFloat(x[i]); });
  const float along = dot * inverse * inverse / static_cast<float>(row.hidden);
  for (int64_t i = 0; i < row.hidden; ++i) {
    Put(d_x[i], inverse * (g(i) - ToFloat(x[i]) * along), accumulate);
  }
}

// target (+)= `count` rows of `stride` floats, added in order.
inline void SumPartialRows(ThreadPool& threads, const float* partials, int64_t count,
                           int64_t stride, bool accumulate, const TensorView& target) {
  constexpr int64_t kColumns = 256;
  ForBlocks(threads, target.size(), kColumns, [&](int64_t begin, int64_t end) {
    auto* sums = target.as<float>();
    if (!accumulate) std::fill(sums + begin, sums + end, 0.0f);
    for (int64_t block = 0; block < count; ++block) {
      for (int64_t i = begin; i < end; ++i) sums[i] += partials[block * stride + i];
    }
  });
}

}  // namespace lazytrain::cpu
