// Rows scaled to length 1.
#pragma once

#include "core/tensor.h"
#include "device/cuda/cuda_lane_context.h"

namespace lazytrain::cuda {

// to = w_i / max(|w_i|, 1e-12) for every row i of `weight`; `to` has its shape and dtype.
void NormalizeRows(CudaLaneContext& context, const TensorView& weight, void* to);

// target (+)= the gradient of the rows, from that of the normalised ones; both float32.
void NormalizeRowsBackward(CudaLaneContext& context, const TensorView& weight,
                           const TensorView& gradient, bool accumulate, const TensorView& target);

}  // namespace lazytrain::cuda
