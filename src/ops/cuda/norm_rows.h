// Root mean square normalisation of stretches of rows; shared by rms_norm and qk_norm.
#pragma once

#include <cstdint>

#include "core/tensor.h"
#include "device/cuda/cuda_lane_context.h"

namespace lazytrain::cuda {

// Every token has `groups` stretches of `size` channels, one behind the other, that are each
// normalised over themselves; the first lies at the address given, the next token's `token_stride`
// elements later. Stretches from `second_from` on have the second scale, those from `plain_from` on
// are copied as they are.
struct NormShape {
  int64_t tokens = 0;
  int64_t groups = 1;
  int64_t second_from = 1;
  int64_t plain_from = 1;
  int64_t size = 0;
  int64_t token_stride = 0;
  float eps = 0.0f;
  float scale_offset = 0.0f;
  DType dtype = DType::kF32;

  int64_t rows() const { return tokens * groups; }
};

// [size] each; the second one where the shape says so.
struct NormScales {
  TensorView first;
  TensorView second = {};
};

// y = x / rms(x) (scale + scale_offset) (+ residual, unless null).
void NormForward(CudaLaneContext& context, const NormShape& shape, const void* x,
                 const NormScales& scales, const void* residual, void* y);

// Rows of `size` floats that the backward needs for its partial sums of the gradient of the first
// (0) or second (1) scale.
int64_t NormPartialRows(const NormShape& shape, int which);
// At least as many as both scales need, with any number of tokens up to the shape's.
int64_t MostNormPartialRows(const NormShape& shape);

// d_x (+)= the gradient of x, unless null; partials = NormPartialRows rows that add up to the first
// scale's gradient, then those of the second's, unless null.
void NormBackward(CudaLaneContext& context, const NormShape& shape, const void* x,
                  const NormScales& scales, const void* d_y, bool accumulate, void* d_x,
                  float* partials);

}  // namespace lazytrain::cuda
