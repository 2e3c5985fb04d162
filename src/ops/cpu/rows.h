// What row-wise kernels share: element types, row blocks as tasks, reading and writing rows as
// float32.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/dtype.h"
#include "core/error.h"
#include "core/tensor.h"
#include "core/thread_pool.h"
#include "core/units.h"
#include "device/cpu/cpu_lane_context.h"

namespace lazytrain::cpu {

inline ThreadPool& Threads(LaneContext& context) {
  return static_cast<CpuLaneContext&>(context).threads();
}

// Calls body(element) with a value of the element type: float or BFloat16.
template <typename Body>
void WithElementType(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kF32:
      return body(float{});
    case DType::kBF16:
      return body(BFloat16{});
    default:
      throw InternalError("a CPU kernel was given {} values", Name(dtype));
  }
}

// Calls body(begin, end) for blocks of `block` rows on all threads.
template <typename Body>
void ForBlocks(ThreadPool& threads, int64_t rows, int64_t block, const Body& body) {
  threads.Run(CeilDiv(rows, block),
              [&](int64_t task) { body(task * block, std::min(rows, (task + 1) * block)); });
}

// Rows a task of an elementwise kernel takes: enough work to be worth handing out.
inline int64_t BlockRows(int64_t cols) { return std::max<int64_t>(1, 16384 / cols); }

template <typename T>
inline void Put(T& target, float value, bool accumulate) {
  target = FromFloat<T>(accumulate ? ToFloat(target) + value : value);
}

template <typename T>
inline void PutRow(const float* values, int64_t count, bool accumulate, T* __restrict target) {
  if (accumulate) {
    for (int64_t i = 0; i < count; ++i) target[i] = FromFloat<T>(ToFloat(target[i]) + values[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) target[i] = FromFloat<T>(values[i]);
  }
}

// values[i] += element (row, col + i) of the view.
inline void AddRow(const TensorView& view, int64_t row, int64_t col, int64_t count, float* values) {
  WithElementType(view.dtype, [&](auto element) {
    const auto* source = view.as<const decltype(element)>() + row * view.cols + col;
    for (int64_t i = 0; i < count; ++i) values[i] += ToFloat(source[i]);
  });
}

// Writes (or adds, with one rounding) values to element (row, col + i) of the view.
inline void StoreRow(const TensorView& view, int64_t row, int64_t col, int64_t count,
                     const float* values, bool accumulate) {
  WithElementType(view.dtype, [&](auto element) {
    PutRow(values, count, accumulate, view.as<decltype(element)>() + row * view.cols + col);
  });
}

inline void ZeroRows(ThreadPool& threads, const TensorView& view) {
  if (!view.present() || view.size() == 0) return;
  WithElementType(view.dtype, [&](auto element) {
    using T = decltype(element);
    ForBlocks(threads, view.rows, BlockRows(view.cols), [&](int64_t begin, int64_t end) {
      std::fill(view.as<T>() + begin * view.cols, view.as<T>() + end * view.cols, T{});
    });
  });
}

}  // namespace lazytrain::cpu
