// Kernels of NVIDIA GPUs, under the names of the virtual accelerator's (ops/cpu/kernels.h), which
// they are compared with. They run on the stream of a CudaLaneContext. Sums are made in a fixed
// order and never by atomics, so the same arguments give the same bits in every run.
#pragma once

#include "ops/kernel.h"

namespace lazytrain::cuda {

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
void AttentionBackward(const Op& op, const OpArgs& args, LaneContext& context);
void CachedAttentionForward(const Op& op, const OpArgs& args, LaneContext& context);
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

// What they need as workspace, where it is not what the op says.
int64_t RmsNormWorkspace(const Op& op, Direction direction, const RowCounts& capacity);
int64_t QkNormWorkspace(const Op& op, Direction direction, const RowCounts& capacity);
int64_t LinearWorkspace(const Op& op, Direction direction, const RowCounts& capacity);
int64_t AttentionWorkspace(const Op& op, Direction direction, const RowCounts& capacity);
int64_t LmHeadLossWorkspace(const Op& op, Direction direction, const RowCounts& capacity);
int64_t NormalizedLmHeadLossWorkspace(const Op& op, Direction direction, const RowCounts& capacity);
int64_t NormalizedLinearWorkspace(const Op& op, Direction direction, const RowCounts& capacity);

}  // namespace lazytrain::cuda
