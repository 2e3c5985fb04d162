// Blocks of families that are planned but not run yet: experts, latent attention, the gated delta
// rule, norms and activations of vision towers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/families/decoder.h"
#include "ops/planned_op.h"

namespace lazytrain {

// An op whose cost is `flops` and `values` elements read and written, a row of `x`.
std::shared_ptr<PlannedOp> Planned(const SegmentBuilder& segment, std::string name, int x,
                                   double flops, double values, BackwardNeeds needs);

// (x - mean) / deviation * weight + bias (Ba et al. 2016).
int AddLayerNorm(SegmentBuilder& segment, const std::string& value, int x,
                 const std::string& tensor);

// `kind` of x; gated: of the first half of the columns, times the second half.
int AddActivation(SegmentBuilder& segment, const std::string& value, int x, const std::string& kind,
                  bool gated);

// Attention that the op "attention" cannot do: `name` ("sink_attention"), with weights it reads;
// writes "attn".
struct AttentionVariant {
  std::string name;
  int64_t window = 0;
  int64_t span = 0;  // rows seen in both directions; 0: causal
  std::vector<WeightRef> weights;
};
int AddAttentionVariant(SegmentBuilder& segment, const Heads& heads, int qkv,
                        const AttentionVariant& variant);

// attn * sigmoid(gate).
int AddSigmoidGate(SegmentBuilder& segment, const std::string& value, int x, int gate);

// Routed experts (Shazeer et al. 2017), each a weight unit of its own, and a shared one.
struct ExpertsSpec {
  int64_t experts = 0;
  int64_t top_k = 0;
  int64_t intermediate = 0;
  std::string router = "mlp.gate";
  bool router_bias = false;
  std::string score_bias;  // a float32 vector that only choosing reads; empty: none
  std::string activation = "silu";
  // Stored one by one as "<prefix><expert>.<name>.weight", or (stacked) as "<prefix>gate_up_proj"
  // and "<prefix>down_proj" with a dimension for the expert, [in, out] if transposed.
  std::string prefix = "mlp.experts.";
  std::string gate = "gate_proj", up = "up_proj", down = "down_proj";
  bool stacked = false;
  bool transposed = false;
  bool bias = false;
  // A gated MLP that every token passes; empty: none.
  std::string shared;
  int64_t shared_intermediate = 0;
  std::string shared_gate;  // scales its output by a sigmoid; empty: none
};
// experts(x) + residual; writes "out".
void AddExperts(SegmentBuilder& layer, const ExpertsSpec& spec, int64_t index, int x, int residual);

// Multi-head latent attention (DeepSeek-AI 2024) without its output projection; writes "attn".
struct LatentAttentionSpec {
  int64_t heads = 0;
  int64_t q_rank = 0;  // 0: queries are projected at once
  int64_t kv_rank = 0;
  int64_t nope_dim = 0;
  int64_t rope_dim = 0;
  int64_t v_dim = 0;
  bool bias = false;
};
int AddLatentAttention(SegmentBuilder& layer, const LatentAttentionSpec& spec, const NormSpec& norm,
                       int x);

// Gated delta rule (Yang et al. 2025) with its convolution and gated norm, without its output
// projection.
struct GatedDeltaSpec {
  int64_t k_heads = 0;
  int64_t v_heads = 0;
  int64_t k_dim = 0;
  int64_t v_dim = 0;
  int64_t kernel = 0;
  bool fused_projections = false;  // in_proj_qkvz and in_proj_ba, else one a part
};
int AddGatedDelta(SegmentBuilder& layer, const GatedDeltaSpec& spec, int x);

}  // namespace lazytrain
