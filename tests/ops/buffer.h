// Operands of kernels under test, in memory of their own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/tensor.h"

namespace lazytrain::testing {

// A tensor, NaN at first, with a guard behind it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(DType dtype, int64_t rows, int64_t cols)
      : dtype_(dtype),
        rows_(rows),
        cols_(cols),
        bytes_(static_cast<size_t>(rows * cols * SizeOf(dtype)) + kGuard, std::byte{0xff}) {}

  static Buffer Random(DType dtype, int64_t rows, int64_t cols, std::mt19937& random,
                       double scale = 1.0) {
    std::normal_distribution<double> normal(0.0, scale);
    std::vector<double> values(static_cast<size_t>(rows * cols));
    for (double& value : values) value = normal(random);
    return Of(dtype, rows, cols, values);
  }
  // Rounds to the dtype.
  static Buffer Of(DType dtype, int64_t rows, int64_t cols, const std::vector<double>& values) {
    Buffer buffer(dtype, rows, cols);
    for (size_t i = 0; i < values.size(); ++i) {
      if (dtype == DType::kI32) {
        buffer.Set(i, static_cast<int32_t>(values[i]));
      } else if (dtype == DType::kBF16) {
        buffer.Set(i, ToBFloat16(static_cast<float>(values[i])));
      } else {
        buffer.Set(i, static_cast<float>(values[i]));
      }
    }
    return buffer;
  }

  TensorView view() { return {bytes_.data(), dtype_, rows_, cols_}; }
  DType dtype() const { return dtype_; }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }

  std::vector<double> values() const {
    std::vector<double> values(static_cast<size_t>(rows_ * cols_));
    for (size_t i = 0; i < values.size(); ++i) {
      switch (dtype_) {
        case DType::kI32:
          values[i] = Get<int32_t>(i);
          break;
        case DType::kBF16:
          values[i] = ToFloat(Get<BFloat16>(i));
          break;
        default:
          values[i] = Get<float>(i);
      }
    }
    return values;
  }
  bool SameBits(const Buffer& other) const { return bytes_ == other.bytes_; }
  bool guard_intact() const {
    return std::all_of(bytes_.end() - kGuard, bytes_.end(),
                       [](std::byte b) { return b == std::byte{0xff}; });
  }

 private:
  static constexpr int kGuard = 256;

  template <typename T>
  T Get(size_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + i * sizeof(T), sizeof(T));
    return value;
  }
  template <typename T>
  void Set(size_t i, T value) {
    std::memcpy(bytes_.data() + i * sizeof(T), &value, sizeof(T));
  }

  DType dtype_ = DType::kF32;
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kGuard, std::byte{0xff});
};

// Root of summed squared differences over root of summed squares; NaN anywhere is infinite.
inline double RelativeError(const std::vector<double>& actual,
                            const std::vector<double>& expected) {
  double difference = 0.0;
  double norm = 0.0;
  if (actual.size() != expected.size()) return INFINITY;
  for (size_t i = 0; i < actual.size(); ++i) {
    difference += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  if (difference == 0.0) return 0.0;
  return std::isfinite(difference) ? std::sqrt(difference / std::max(norm, 1e-30)) : INFINITY;
}

}  // namespace lazytrain::testing
