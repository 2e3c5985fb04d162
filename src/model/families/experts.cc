// Mixtral (Jiang et al. 2024), Qwen3 with experts (Yang et al. 2025), GLM-4.5 (GLM team 2025) and
// gpt-oss (OpenAI 2025): a dense decoder's attention, experts instead of its MLP. Planned, not run.
#include "core/error.h"
#include "model/families/decoder.h"
#include "model/families/planned_blocks.h"

namespace lazytrain {
namespace {

// Layers whose MLP is dense: those listed, and all but every decoder_sparse_step-th.
bool IsDenseLayer(const HubConfig& config, int64_t layer) {
  const int64_t step = config.PositiveIntOr("decoder_sparse_step", 1);
  if ((layer + 1) % step != 0) return true;
  if (!config.Has("mlp_only_layers")) return false;
  for (const Json& dense : config.json().at("mlp_only_layers")) {
    if (dense == layer) return true;
  }
  return false;
}

}  // namespace

ModelGraph BuildMixtral(const HubConfig& file, const GraphOptions& options) {
  const HubConfig config = file.WithDefaults({{"num_key_value_heads", 8},
                                              {"num_local_experts", 8},
                                              {"num_experts_per_tok", 2},
                                              {"rms_norm_eps", 1e-5}});
  const DecoderSpec spec = ReadDecoderSpec(config);
  const RopeFrequencies rope = ReadRopeFrequencies(config, spec.heads.dim, {1e6, ""});
  const int64_t window = config.PositiveIntOr("sliding_window", 0);
  ExpertsSpec experts;
  experts.experts = config.PositiveInt("num_local_experts");
  experts.top_k = config.PositiveInt("num_experts_per_tok");
  experts.intermediate = spec.intermediate;
  experts.router = "block_sparse_moe.gate";
  experts.prefix = "block_sparse_moe.experts.";
  experts.gate = "w1";
  experts.up = "w3";
  experts.down = "w2";

  ModelBuilder model(spec.architecture, options);
  AddEmbedding(model, spec);
  for (int64_t i = 0; i < spec.layers; ++i) {
    SegmentBuilder layer = MakeLayer(model, i);
    const int x = layer.graph().LiveIn("x", spec.hidden);
    const int norm1 = layer.Norm("norm1", x, "input_layernorm", spec.norm);
    const int qkv = AddQkv(layer, spec, norm1, false);
    AddRope(layer, spec.heads, rope, qkv);
    const int attn = AddAttention(layer, spec.heads, qkv, window);
    const int mid = layer.Project({"o", "mid", {{"self_attn.o_proj", spec.hidden}}}, attn, x);
    const int norm2 = layer.Norm("norm2", mid, "post_attention_layernorm", spec.norm);
    AddExperts(layer, experts, i, norm2, mid);
    AddLayer(model, std::move(layer));
  }
  return FinishDecoder(model, spec);
}

ModelGraph BuildQwen3Moe(const HubConfig& file, const GraphOptions& options) {
  const HubConfig config = file.WithDefaults(
      {{"num_key_value_heads", 4}, {"sliding_window", 4096}, {"num_experts_per_tok", 8}});
  const DecoderSpec spec = ReadDecoderSpec(config);
  const RopeFrequencies rope = ReadRopeFrequencies(config, spec.heads.dim);
  const std::vector<int64_t> windows = ReadQwenWindows(config, spec.layers);
  const bool bias = config.BoolOr("attention_bias", false);
  ExpertsSpec experts;
  // Files that transformers 5.x writes use the second name.
  experts.experts =
      config.PositiveIntOr("num_experts", config.PositiveIntOr("num_local_experts", 128));
  experts.top_k = config.PositiveInt("num_experts_per_tok");
  experts.intermediate = config.PositiveInt("moe_intermediate_size");

  ModelBuilder model(spec.architecture, options);
  AddEmbedding(model, spec);
  for (int64_t i = 0; i < spec.layers; ++i) {
    SegmentBuilder layer = MakeLayer(model, i);
    const int x = layer.graph().LiveIn("x", spec.hidden);
    const int norm1 = layer.Norm("norm1", x, "input_layernorm", spec.norm);
    const int qkv_in = AddQkv(layer, spec, norm1, bias, "qkv_in");
    const int qkv = AddQkNorm(layer, spec, qkv_in, /*per_head=*/true);
    AddRope(layer, spec.heads, rope, qkv);
    const int attn = AddAttention(layer, spec.heads, qkv, windows[static_cast<size_t>(i)]);
    const int mid = layer.Project({"o", "mid", {{"self_attn.o_proj", spec.hidden}}, bias}, attn, x);
    const int norm2 = layer.Norm("norm2", mid, "post_attention_layernorm", spec.norm);
    if (IsDenseLayer(config, i)) {
      AddMlp(layer, spec, norm2, mid);
    } else {
      AddExperts(layer, experts, i, norm2, mid);
    }
    AddLayer(model, std::move(layer));
  }
  return FinishDecoder(model, spec);
}

ModelGraph BuildGlm4Moe(const HubConfig& file, const GraphOptions& options) {
  const HubConfig config = file.WithDefaults(
      {{"num_key_value_heads", 8}, {"first_k_dense_replace", 1}, {"rms_norm_eps", 1e-5}});
  const DecoderSpec spec = ReadDecoderSpec(config);
  const RopeFrequencies rope =
      ReadRopeFrequencies(config, RotaryChannels(config, spec.heads.dim, 0.5));
  const bool bias = config.BoolOr("attention_bias", false);
  const bool qk_norm = config.BoolOr("use_qk_norm", false);
  const int64_t dense_layers = config.Int("first_k_dense_replace");
  ExpertsSpec experts;
  experts.experts = config.PositiveInt("n_routed_experts");
  experts.top_k = config.PositiveInt("num_experts_per_tok");
  experts.intermediate = config.PositiveInt("moe_intermediate_size");
  experts.score_bias = "mlp.gate.e_score_correction_bias";
  experts.shared = "mlp.shared_experts.";
  experts.shared_intermediate = config.PositiveInt("n_shared_experts") * experts.intermediate;

  ModelBuilder model(spec.architecture, options);
  AddEmbedding(model, spec);
  for (int64_t i = 0; i < spec.layers; ++i) {
    SegmentBuilder layer = MakeLayer(model, i);
    const int x = layer.graph().LiveIn("x", spec.hidden);
    const int norm1 = layer.Norm("norm1", x, "input_layernorm", spec.norm);
    int qkv = AddQkv(layer, spec, norm1, bias, qk_norm ? "qkv_in" : "qkv");
    if (qk_norm) qkv = AddQkNorm(layer, spec, qkv, /*per_head=*/true);
    AddRope(layer, spec.heads, rope, qkv);
    const int attn = AddAttention(layer, spec.heads, qkv);
    const int mid = layer.Project({"o", "mid", {{"self_attn.o_proj", spec.hidden}}}, attn, x);
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

ModelGraph BuildGptOss(const HubConfig& file, const GraphOptions& options) {
  const HubConfig config = file.WithDefaults({{"num_key_value_heads", 8},
                                              {"head_dim", 64},
                                              {"sliding_window", 128},
                                              {"rms_norm_eps", 1e-5}});
  const DecoderSpec spec = ReadDecoderSpec(config);
  const RopeFrequencies rope = ReadRopeFrequencies(config, spec.heads.dim, {150000.0, ""});
  std::vector<std::string> types = ReadLayerTypes(config, spec.layers);
  for (auto i = static_cast<int64_t>(types.size()); i < spec.layers; ++i) {
    types.emplace_back((i + 1) % 2 == 0 ? "full_attention" : "sliding_attention");
  }
  const bool bias = config.BoolOr("attention_bias", true);
  ExpertsSpec experts;
  experts.experts = config.PositiveInt("num_local_experts");
  experts.top_k = config.PositiveInt("num_experts_per_tok");
  experts.intermediate = spec.intermediate;
  experts.router = "mlp.router";
  experts.router_bias = true;
  experts.activation = "clamped_swiglu";
  experts.stacked = true;
  experts.transposed = true;
  experts.bias = true;

  ModelBuilder model(spec.architecture, options);
  AddEmbedding(model, spec);
  for (int64_t i = 0; i < spec.layers; ++i) {
    SegmentBuilder layer = MakeLayer(model, i);
    const int x = layer.graph().LiveIn("x", spec.hidden);
    const int norm1 = layer.Norm("norm1", x, "input_layernorm", spec.norm);
    const int qkv = AddQkv(layer, spec, norm1, bias);
    AddRope(layer, spec.heads, rope, qkv);
    // A learned logit a head that takes its share of the softmax and has no value.
    const WeightRef sinks =
        layer.Vector("sinks", Init::kZeros, {{"self_attn.sinks", spec.heads.q}});
    const bool slides = types[static_cast<size_t>(i)] == "sliding_attention";
    const int attn = AddAttentionVariant(
        layer, spec.heads, qkv,
        {"sink_attention", slides ? config.PositiveInt("sliding_window") : 0, 0, {sinks}});
    const int mid = layer.Project({"o", "mid", {{"self_attn.o_proj", spec.hidden}}, bias}, attn, x);
    const int norm2 = layer.Norm("norm2", mid, "post_attention_layernorm", spec.norm);
    AddExperts(layer, experts, i, norm2, mid);
    AddLayer(model, std::move(layer));
  }
  return FinishDecoder(model, spec);
}

}  // namespace lazytrain
