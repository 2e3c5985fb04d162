// A view of a tensor somewhere in memory: who owns the bytes is not its business.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace lazytrain {

using Shape = std::vector<int64_t>;

inline int64_t NumElements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// "[128, 64]"
std::string ToString(const Shape& shape);

// Row-major rows x cols, the shape every kernel of this project works on: a value has one row a
// token, a weight one row an output. `scales` belongs to quantised operands (null: none).
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  const float* scales = nullptr;

  bool present() const { return data != nullptr; }
  int64_t size() const { return rows * cols; }
  int64_t bytes() const { return size() * SizeOf(dtype); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

}  // namespace lazytrain
