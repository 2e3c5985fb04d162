#include "ops/cpu/kernels.h"

namespace lazytrain::cpu {

const KernelTable& Kernels() {
  static const KernelTable table(
      "cpu", "own kernels, AVX2 and FMA",
      {
          {"embedding", {EmbeddingForward, EmbeddingBackward}},
          {"rms_norm", {RmsNormForward, RmsNormBackward}},
          {"qk_norm", {QkNormForward, QkNormBackward}},
          {"linear", {LinearForward, LinearBackward}},
          {"rope", {RopeForward, RopeBackward}},
          {"attention", {AttentionForward, AttentionBackward}},
          {"cached_attention", {CachedAttentionForward, nullptr}},
          {"swiglu", {SwigluForward, SwigluBackward}},
          {"regroup_heads", {RegroupHeadsForward, RegroupHeadsBackward}},
          {"normalized_lm_head_loss", {NormalizedLmHeadLossForward, NormalizedLmHeadLossBackward}},
          {"normalized_linear", {NormalizedLinearForward, nullptr}},
          {"gather_rows", {GatherRowsForward, nullptr}},
          {"lm_head_loss", {LmHeadLossForward, LmHeadLossBackward}},
      });
  return table;
}

}  // namespace lazytrain::cpu
