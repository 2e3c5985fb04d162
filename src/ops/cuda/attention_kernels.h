// The ways attention is computed here, for AttentionForward and AttentionBackward to choose from.
#pragma once

#include "ops/attention.h"
#include "ops/cuda/launch.h"
#include "ops/kernel.h"

namespace lazytrain::cuda {

inline constexpr int64_t kMaxHeadDim = 256;
// Slopes travel as an argument of kernels.
inline constexpr int64_t kMaxBiasedHeads = 128;

// What an attention call reads and writes, as in ops/attention.h.
struct AttentionCall {
  const Attention& op;
  const BatchLayout& batch;
  TensorView qkv;
  TensorView attn;
  TensorView lse;
  // Backward only.
  TensorView d_attn;
  TensorView d_qkv;
  bool accumulate = false;
  float* delta = nullptr;  // [tokens, q_heads]: d_attn times attn, summed over a head
};

// In float32, on the arithmetic units: any head_dim up to kMaxHeadDim, both dtypes.
void AttentionForwardFloat(CudaLaneContext& context, const AttentionCall& call);
void AttentionBackwardFloat(CudaLaneContext& context, const AttentionCall& call);

// On the tensor cores, probabilities rounded to bfloat16: bfloat16, head_dim a multiple of 8.
bool TensorCoresTake(const AttentionCall& call);
void AttentionForwardTensor(CudaLaneContext& context, const AttentionCall& call);
void AttentionBackwardTensor(CudaLaneContext& context, const AttentionCall& call);

// On Hopper's tensor cores with its tensor copies, head_dim 64 to 128: where TensorCoresTake the
// call, in a build and on a GPU for sm_90a.
bool HopperTakes(const CudaLaneContext& context, const AttentionCall& call);
void AttentionForwardHopper(CudaLaneContext& context, const AttentionCall& call);
void AttentionBackwardHopper(CudaLaneContext& context, const AttentionCall& call);

}  // namespace lazytrain::cuda
