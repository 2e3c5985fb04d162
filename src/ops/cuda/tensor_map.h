// How Hopper's tensor copies see a matrix of heads.
#pragma once

#include <cuda.h>

#include "core/tensor.h"

namespace lazytrain::cuda {

// [tokens, heads, head_dim] of bfloat16, head_dim a multiple of 8, copied in boxes of 64 tokens by
// 64 channels of a head, swizzled as wgmma.cuh wants it. Throws Error where the driver refuses.
CUtensorMap MapOfHeads(const TensorView& view, int64_t head_dim);

}  // namespace lazytrain::cuda
