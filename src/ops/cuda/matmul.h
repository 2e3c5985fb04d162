// Matrix products through cuBLASLt.
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "device/cuda/cuda_lane_context.h"

namespace lazytrain::cuda {

// Scratch memory of products with a weight of so many elements: what NVIDIA recommends on Hopper,
// and little for small models, whose arena should not consist of it. A function of the op alone,
// since algorithms are chosen by it.
inline constexpr int64_t MatmulWorkspace(int64_t weight_elements) {
  return weight_elements >= (int64_t{1} << 20) ? int64_t{32} << 20 : int64_t{1} << 20;
}

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
  // Added to the product before it is rounded: a matrix of d's shape and dtype (d itself: the
  // product is added to what it holds), and a vector of d.cols elements of d's dtype. Null:
  // nothing.
  const void* added = nullptr;
  const void* bias = nullptr;
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;
};

// d = a b (+ added) (+ bias): float32 accumulation (with float32 operands no shorter format in
// between), one rounding at the end. The algorithm is the library's first for the shape among those
// whose sums have a fixed order and that make do with the workspace.
void Multiply(CudaLaneContext& context, const MatmulCall& call);

}  // namespace lazytrain::cuda
