// Kernels over rows of matrices that several ops use.
#pragma once

#include <initializer_list>

#include "core/tensor.h"
#include "device/cuda/cuda_lane_context.h"

namespace lazytrain::cuda {

// Overwrites a contiguous matrix with zeros.
void Zero(CudaLaneContext& context, const TensorView& view);

// to (+)= from, element by element, rounded once to `to`'s dtype. May be the same matrix.
void AddRows(CudaLaneContext& context, const TensorView& from, bool accumulate,
             const TensorView& to);

// The same for columns [first, cols) of two matrices of one shape and dtype.
void AddColumns(CudaLaneContext& context, const TensorView& from, int64_t first, bool accumulate,
                const TensorView& to);

// Every row of float32 `y` += the vector `bias`.
void AddToEveryRow(CudaLaneContext& context, const TensorView& bias, const TensorView& y);

// target (+)= the sum of `count` rows of floats, in a fixed order; without a target nothing.
struct PartialSums {
  const float* rows = nullptr;
  int64_t count = 0;
  bool accumulate = false;
  TensorView target;
};

// One or two sums, by one kernel; the rows of all of them are `stride` floats apart.
void SumPartialRows(CudaLaneContext& context, int64_t stride,
                    std::initializer_list<PartialSums> sums);

// target (+)= the sums of x's columns: rows in blocks of kColumnSumRows, then the blocks.
inline constexpr int64_t kColumnSumRows = 128;
int64_t ColumnSumsWorkspace(int64_t rows, int64_t cols);
void ColumnSums(CudaLaneContext& context, const TensorView& x, bool accumulate,
                const TensorView& target, void* workspace);

}  // namespace lazytrain::cuda
