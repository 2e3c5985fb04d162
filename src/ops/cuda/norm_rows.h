// Root mean square normalisation of stretches of rows; shared by rms_norm and qk_norm.
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "device/cuda/cuda_lane_context.h"

namespace lazytrain::cuda {

// Every token has `groups` stretches of `size` channels, one behind the other, that are each
// normalised over themselves with the same scale; the first lies at the address given, the next
// token's `token_stride` elements later.
struct NormShape {
  int64_t tokens = 0;
  int64_t groups = 1;
  int64_t size = 0;
  int64_t token_stride = 0;
  float eps = 0.0f;
  float scale_offset = 0.0f;
  DType dtype = DType::kF32;

  int64_t rows() const { return tokens * groups; }
};

// y = x / rms(x) (scale + scale_offset) (+ residual, unless null).
void NormForward(CudaLaneContext& context, const NormShape& shape, const void* x,
                 const TensorView& scale, const void* residual, void* y);

// Rows of `size` floats that the backward needs for its partial sums of d_scale.
int64_t NormPartialRows(int64_t rows, int64_t size, DType dtype);

// d_x (+)= the gradient of x, unless null; partials = NormPartialRows rows that add up to d_scale,
// unless null.
void NormBackward(CudaLaneContext& context, const NormShape& shape, const void* x,
                  const TensorView& scale, const void* d_y, bool accumulate, void* d_x,
                  float* partials);

}  // namespace lazytrain::cuda
