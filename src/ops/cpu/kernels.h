// The virtual accelerator's kernels: the reference that every other backend is compared with. They
// run on the threads of a CpuLaneContext.
#pragma once

#include "ops/kernel.h"

namespace lazytrain::cpu {

const KernelTable& Kernels();

// One file each, beside this one.
void EmbeddingForward(const Op& op, const OpArgs& args, LaneContext& context);
void EmbeddingBackward(const Op& op, const OpArgs& args, LaneContext& context);
void RmsNormForward(const Op& op, const OpArgs& args, LaneContext& context);
void RmsNormBackward(const Op& op, const OpArgs& args, LaneContext& context);
void QkNormForward(const Op& op, const OpArgs& args, LaneContext& context);
void QkNormBackward(const Op& op, const OpArgs& args, LaneContext& context);
void LinearForward(const Op& op, const OpArgs& args, LaneContext& context);
void LinearBackward(const Op& op, const OpArgs& args, LaneContext& context);
void RopeForward(const Op& op, const OpArgs& args, LaneContext& context);
void RopeBackward(const Op& op, const OpArgs& args, LaneContext& context);
void AttentionForward(const Op& op, const OpArgs& args, LaneContext& context);
void CachedAttentionForward(const Op& op, const OpArgs& args, LaneContext& context);
void AttentionBackward(const Op& op, const OpArgs& args, LaneContext& context);
void SwigluForward(const Op& op, const OpArgs& args, LaneContext& context);
void SwigluBackward(const Op& op, const OpArgs& args, LaneContext& context);
void RegroupHeadsForward(const Op& op, const OpArgs& args, LaneContext& context);
void RegroupHeadsBackward(const Op& op, const OpArgs& args, LaneContext& context);
void NormalizedLmHeadLossForward(const Op& op, const OpArgs& args, LaneContext& context);
void NormalizedLmHeadLossBackward(const Op& op, const OpArgs& args, LaneContext& context);
void NormalizedLinearForward(const Op& op, const OpArgs& args, LaneContext& context);
void GatherRowsForward(const Op& op, const OpArgs& args, LaneContext& context);
void LmHeadLossForward(const Op& op, const OpArgs& args, LaneContext& context);
void LmHeadLossBackward(const Op& op, const OpArgs& args, LaneContext& context);

}  // namespace lazytrain::cpu
