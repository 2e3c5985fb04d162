#include "ops/cuda/kernels.h"

#include <fmt/core.h>

#include <string>

#include "device/cuda/architecture.h"
#include "device/cuda/nvtx_range.h"
#include "ops/cuda/cublaslt.h"

namespace lazytrain::cuda {
namespace {

template <KernelFunction kFunction, bool kBackward>
void InRange(const Op& op, const OpArgs& args, LaneContext& context) {
  const std::string name = fmt::format("{}{}", op.type(), kBackward ? " backward" : "");
  const NvtxRange range(name.c_str());
  kFunction(op, args, context);
}

// Kernels whose calls profilers show under the op's name.
template <KernelFunction kForward, KernelFunction kBackward = nullptr>
Kernel Named(WorkspaceFunction workspace = nullptr) {
  Kernel kernel;
  kernel.forward = InRange<kForward, false>;
  if constexpr (kBackward != nullptr) kernel.backward = InRange<kBackward, true>;
  kernel.workspace = workspace;
  return kernel;
}

}  // namespace

const KernelTable& Kernels() {
  static const KernelTable table(
      "cuda", fmt::format("own kernels for sm_{}, {}", BuiltArchitecture(), CublasLtVersion()),
      {
          {"embedding", Named<EmbeddingForward, EmbeddingBackward>()},
          {"rms_norm", Named<RmsNormForward, RmsNormBackward>(RmsNormWorkspace)},
          {"qk_norm", Named<QkNormForward, QkNormBackward>(QkNormWorkspace)},
          {"linear", Named<LinearForward, LinearBackward>(LinearWorkspace)},
          {"rope", Named<RopeForward, RopeBackward>()},
          {"attention", Named<AttentionForward, AttentionBackward>(AttentionWorkspace)},
          {"cached_attention", Named<CachedAttentionForward>()},
          {"swiglu", Named<SwigluForward, SwigluBackward>()},
          {"regroup_heads", Named<RegroupHeadsForward, RegroupHeadsBackward>()},
          {"normalized_lm_head_loss",
           Named<NormalizedLmHeadLossForward, NormalizedLmHeadLossBackward>(
               NormalizedLmHeadLossWorkspace)},
          {"normalized_linear", Named<NormalizedLinearForward>(NormalizedLinearWorkspace)},
          {"gather_rows", Named<GatherRowsForward>()},
          {"lm_head_loss", Named<LmHeadLossForward, LmHeadLossBackward>(LmHeadLossWorkspace)},
      });
  return table;
}

}  // namespace lazytrain::cuda
