// Cross-entropy of rows of logits.
#pragma once

#include "core/tensor.h"
#include "device/cuda/cuda_lane_context.h"

namespace lazytrain::cuda {

// losses[row] = weights[row] (logsumexp(logits) - logits[target]), 0 where the target is negative;
// `losses` may be null. `gradient`, where there is one, gets weight (softmax - onehot): a matrix of
// the logits' shape, float32 (which may be the logits' own memory) or bfloat16 (which may not).
void SoftmaxLoss(CudaLaneContext& context, const TensorView& logits, const int32_t* targets,
                 const float* weights, float* losses, const TensorView& gradient);

}  // namespace lazytrain::cuda
