// Matrix products through cuBLASLt.
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "device/cuda/cuda_lane_context.h"

namespace lazytrain::cuda {

// Scratch memory of a product: what NVIDIA recommends on Hopper.
inline constexpr int64_t kMatmulWorkspace = int64_t{32} << 20;

// A row-major matrix as stored, and whether its transpose is meant.
struct MatmulOperand {
  TensorView view;
  bool transposed = false;
  int64_t row_stride = 0;  // elements from row to row; 0: view.cols
};

struct MatmulCall {
  MatmulOperand a;
  MatmulOperand b;
  TensorView d;
  // Added to the product before it is rounded: a matrix of d's shape and dtype (d itself: the product
  // is added to what it holds), and a vector of d.cols elements of d's dtype. Null: nothing.
  const void* added = nullptr;
  const void* bias = nullptr;
};

// d = a b (+ added) (+ bias): float32 accumulation (with float32 operands no shorter format in
// between), one rounding at the end. The algorithm is the library's first for the shape among those
// whose sums have a fixed order. `workspace`: kMatmulWorkspace bytes.
void Multiply(CudaLaneContext& context, const MatmulCall& call, void* workspace);

}  // namespace lazytrain::cuda
