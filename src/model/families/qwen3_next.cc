// Qwen3-Next and Qwen3.5 (Qwen team 2025, 2026): three layers of the gated delta rule, then one of
// gated attention; norms whose stored scale is the distance from 1. Planned, not run.
#include "core/error.h"
#include "model/families/decoder.h"
#include "model/families/planned_blocks.h"
#include "model/families/vision.h"

namespace lazytrain {
namespace {

GatedDeltaSpec ReadGatedDelta(const HubConfig& config, bool fused) {
  GatedDeltaSpec spec;
  spec.k_heads = config.PositiveInt("linear_num_key_heads");
  spec.v_heads = config.PositiveInt("linear_num_value_heads");
  spec.k_dim = config.PositiveInt("linear_key_head_dim");
  spec.v_dim = config.PositiveInt("linear_value_head_dim");
  spec.kernel = config.PositiveInt("linear_conv_kernel_dim");
  spec.fused_projections = fused;
  return spec;
}

ExpertsSpec ReadExperts(const HubConfig& config, bool stacked) {
  ExpertsSpec spec;
  spec.experts = config.PositiveInt("num_experts");
  spec.top_k = config.PositiveInt("num_experts_per_tok");
  spec.intermediate = config.PositiveInt("moe_intermediate_size");
  spec.stacked = stacked;
  spec.shared = "mlp.shared_expert.";
  spec.shared_intermediate = config.PositiveInt("shared_expert_intermediate_size");
  spec.shared_gate = "mlp.shared_expert_gate";
  return spec;
}

// x -> projections with a gate -> q/k norm -> rope -> attention -> gate; writes "gated".
int AddGatedAttention(SegmentBuilder& layer, const DecoderSpec& spec, const RopeFrequencies& rope,
                      bool bias, int x) {
  const int64_t q = spec.heads.q_cols();
  const int all = layer.Project({"qkv",
                                 "qgkv",
                                 {{"self_attn.q_proj", 2 * q},
                                  {"self_attn.k_proj", spec.heads.kv_cols()},
                                  {"self_attn.v_proj", spec.heads.kv_cols()}},
                                 bias},
                                x);
  const int qkv_in = layer.graph().Value("qkv_in", spec.heads.cols());
  const int gate = layer.graph().Value("gate", q);
  layer.graph().Add(
      "split_gate",
      Planned(layer, "split_gate", all, 0, 2.0 * static_cast<double>(layer.cols(all)), {}), {all},
      {qkv_in, gate});
  const int qkv = AddQkNorm(layer, spec, qkv_in, /*per_head=*/true);
  AddRope(layer, spec.heads, rope, qkv);
  return AddSigmoidGate(layer, "gated", AddAttention(layer, spec.heads, qkv), gate);
}

struct Layout {
  std::string prefix;
  bool fused_projections = false;  // of the gated delta rule
  bool experts = false;
  bool stacked_experts = false;
};

void AddLayers(ModelBuilder& model, const DecoderSpec& spec, const HubConfig& config,
               const Layout& layout) {
  const RopeFrequencies rope =
      ReadRopeFrequencies(config, RotaryChannels(config, spec.heads.dim, 0.25));
  const GatedDeltaSpec delta = ReadGatedDelta(config, layout.fused_projections);
  const int64_t interval = config.PositiveIntOr("full_attention_interval", 4);
  std::vector<std::string> types =
      ReadLayerTypes(config, spec.layers, {"full_attention", "linear_attention"});
  for (auto i = static_cast<int64_t>(types.size()); i < spec.layers; ++i) {
    types.emplace_back((i + 1) % interval == 0 ? "full_attention" : "linear_attention");
  }
  const bool bias = config.BoolOr("attention_bias", false);
  for (int64_t i = 0; i < spec.layers; ++i) {
    SegmentBuilder layer = MakeLayer(model, i, layout.prefix);
    const int x = layer.graph().LiveIn("x", spec.hidden);
    const int norm1 = layer.Norm("norm1", x, "input_layernorm", spec.norm);
    int mid = kNoValue;
    if (types[static_cast<size_t>(i)] == "full_attention") {
      const int attn = AddGatedAttention(layer, spec, rope, bias, norm1);
      mid = layer.Project({"o", "mid", {{"self_attn.o_proj", spec.hidden}}, bias}, attn, x);
    } else {
      const int mixed = AddGatedDelta(layer, delta, norm1);
      mid = layer.Project({"o", "mid", {{"linear_attn.out_proj", spec.hidden}}}, mixed, x);
    }
    const int norm2 = layer.Norm("norm2", mid, "post_attention_layernorm", spec.norm);
    if (layout.experts) {
      AddExperts(layer, ReadExperts(config, layout.stacked_experts), i, norm2, mid);
    } else {
      AddMlp(layer, spec, norm2, mid);
    }
    AddLayer(model, std::move(layer));
  }
}

DecoderSpec ReadSpec(const HubConfig& config) {
  DecoderSpec spec = ReadDecoderSpec(config);
  spec.norm.scale_offset = 1.0f;
  return spec;
}

// Vision tower and text decoder; a file without a vision part is the decoder alone.
ModelGraph BuildQwen35(const HubConfig& file, const GraphOptions& options, bool experts) {
  const std::optional<HubConfig> inner = file.Object("text_config");
  const HubConfig config =
      (inner ? *inner : file).WithDefaults({{"head_dim", 256}, {"intermediate_size", 1}});
  DecoderSpec spec = ReadSpec(config);
  spec.architecture = file.String("model_type");
  spec.tied_head = file.BoolOr("tie_word_embeddings", spec.tied_head);
  ModelBuilder model(spec.architecture, options);
  const std::string text = inner ? "model.language_model." : "model.";
  const std::optional<HubConfig> vision = file.Object("vision_config");
  std::optional<QwenVision> images;
  if (vision) images = AddQwenVision(model, *vision, "model.visual.");
  AddEmbedding(model, spec, text + "embed_tokens");
  if (images) AddImageTokens(model, spec.hidden, images->tokens);
  AddLayers(model, spec, config, {text + "layers.", false, experts, inner.has_value()});
  return FinishDecoder(model, spec, {text + "norm", "lm_head"});
}

}  // namespace

ModelGraph BuildQwen3Next(const HubConfig& file, const GraphOptions& options) {
  const HubConfig config = file.WithDefaults({{"num_key_value_heads", 2}, {"head_dim", 256}});
  const DecoderSpec spec = ReadSpec(config);
  ModelBuilder model(spec.architecture, options);
  AddEmbedding(model, spec);
  AddLayers(model, spec, config, {"model.layers.", true, true, false});
  return FinishDecoder(model, spec);
}

ModelGraph BuildQwen35Dense(const HubConfig& config, const GraphOptions& options) {
  return BuildQwen35(config, options, /*experts=*/false);
}

ModelGraph BuildQwen35Moe(const HubConfig& config, const GraphOptions& options) {
  return BuildQwen35(config, options, /*experts=*/true);
}

}  // namespace lazytrain
