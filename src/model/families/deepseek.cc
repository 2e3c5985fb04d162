// DeepSeek V2 and V3 (DeepSeek-AI 2024) and GLM-4.7-Flash: latent attention, dense first layers,
// then routed and shared experts. Planned, not run.
#include "core/error.h"
#include "model/families/decoder.h"
#include "model/families/planned_blocks.h"

namespace lazytrain {
namespace {

LatentAttentionSpec ReadLatentAttention(const HubConfig& config) {
  LatentAttentionSpec spec;
  spec.heads = config.PositiveInt("num_attention_heads");
  spec.q_rank = config.PositiveIntOr("q_lora_rank", 0);
  spec.kv_rank = config.PositiveInt("kv_lora_rank");
  spec.nope_dim = config.PositiveInt("qk_nope_head_dim");
  spec.rope_dim = config.PositiveInt("qk_rope_head_dim");
  spec.v_dim = config.PositiveInt("v_head_dim");
  spec.bias = config.BoolOr("attention_bias", false);
  return spec;
}

ExpertsSpec ReadExperts(const HubConfig& config, bool score_bias) {
  ExpertsSpec spec;
  spec.experts = config.PositiveInt("n_routed_experts");
  spec.top_k = config.PositiveInt("num_experts_per_tok");
  spec.intermediate = config.PositiveInt("moe_intermediate_size");
  if (score_bias) spec.score_bias = "mlp.gate.e_score_correction_bias";
  const int64_t shared = config.PositiveIntOr("n_shared_experts", 0);
  if (shared > 0) {
    spec.shared = "mlp.shared_experts.";
    spec.shared_intermediate = shared * spec.intermediate;
  }
  return spec;
}

ModelGraph BuildLatent(const HubConfig& file, const GraphOptions& options, bool score_bias) {
  // Heads of keys are as many as of queries; their sizes are below.
  const HubConfig config = file.WithDefaults({{"first_k_dense_replace", 0}, {"head_dim", 64}});
  const DecoderSpec spec = ReadDecoderSpec(config);
  const LatentAttentionSpec attention = ReadLatentAttention(config);
  const ExpertsSpec experts = ReadExperts(config, score_bias);
  const int64_t dense_layers = config.Int("first_k_dense_replace");
  // The scaling has to be one that is known, though nothing turns yet.
  ReadRopeFrequencies(config, attention.rope_dim);

  ModelBuilder model(spec.architecture, options);
  AddEmbedding(model, spec);
  for (int64_t i = 0; i < spec.layers; ++i) {
    SegmentBuilder layer = MakeLayer(model, i);
    const int x = layer.graph().LiveIn("x", spec.hidden);
    const int norm1 = layer.Norm("norm1", x, "input_layernorm", spec.norm);
    const int attn = AddLatentAttention(layer, attention, spec.norm, norm1);
    const int mid =
        layer.Project({"o", "mid", {{"self_attn.o_proj", spec.hidden}}, attention.bias}, attn, x);
    const int norm2 = layer.Norm("norm2", mid, "post_attention_layernorm", spec.norm);
    if (i < dense_layers) {
      AddMlp(layer, spec, norm2, mid);
    } else {
      AddExperts(layer, experts, i, norm2, mid);
    }
    AddLayer(model, std::move(layer));
  }
  return FinishDecoder(model, spec);
}

}  // namespace

ModelGraph BuildDeepSeekV2(const HubConfig& config, const GraphOptions& options) {
  return BuildLatent(config, options, /*score_bias=*/false);
}

ModelGraph BuildDeepSeekV3(const HubConfig& config, const GraphOptions& options) {
  return BuildLatent(config, options, /*score_bias=*/true);
}

}  // namespace lazytrain
