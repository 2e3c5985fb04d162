// Cross-entropy of rows of logits.
#pragma once

#include "core/tensor.h"
#include "device/cuda/cuda_lane_context.h"

namespace lazytrain::cuda {

// losses[row] = weights[row] (logsumexp(logits) - logits[target]), 0 where the target is negative;
// `losses` may be null. With `gradient`, weight (softmax - onehot) takes the place of the row's
// logits, as `gradient_dtype`: bfloat16 in the first half of the row's bytes.
void SoftmaxLoss(CudaLaneContext& context, const TensorView& logits, const int32_t* targets,
                 const float* weights, float* losses, bool gradient, DType gradient_dtype);

}  // namespace lazytrain::cuda
