#include "ops/cuda/kernels.h"

#include <fmt/core.h>

#include "device/cuda/architecture.h"
#include "ops/cuda/cublaslt.h"

namespace lazytrain::cuda {

const KernelTable& Kernels() {
  static const KernelTable table(
      "cuda", fmt::format("own kernels for sm_{}, {}", BuiltArchitecture(), CublasLtVersion()),
      {
          {"embedding", {EmbeddingForward, EmbeddingBackward}},
          {"rms_norm", {RmsNormForward, RmsNormBackward, RmsNormWorkspace}},
          {"qk_norm", {QkNormForward, QkNormBackward, QkNormWorkspace}},
          {"linear", {LinearForward, LinearBackward, LinearWorkspace}},
          {"rope", {RopeForward, RopeBackward}},
          {"attention", {AttentionForward, AttentionBackward, AttentionWorkspace}},
          {"cached_attention", {CachedAttentionForward, nullptr}},
          {"swiglu", {SwigluForward, SwigluBackward}},
          {"regroup_heads", {RegroupHeadsForward, RegroupHeadsBackward}},
          {"normalized_lm_head_loss",
           {NormalizedLmHeadLossForward, NormalizedLmHeadLossBackward,
            NormalizedLmHeadLossWorkspace}},
          {"normalized_linear", {NormalizedLinearForward, nullptr, NormalizedLinearWorkspace}},
          {"gather_rows", {GatherRowsForward, nullptr}},
          {"lm_head_loss", {LmHeadLossForward, LmHeadLossBackward, LmHeadLossWorkspace}},
      });
  return table;
}

}  // namespace lazytrain::cuda
