// Llama 4 (Meta 2025): experts chosen one a token beside a shared one, attention in chunks of the
// document in layers with rope, a vision tower. Planned, not run.
#include <optional>

#include "core/error.h"
#include "model/families/decoder.h"
#include "model/families/planned_blocks.h"
#include "model/families/vision.h"

namespace lazytrain {
namespace {

// Queries and keys of length sqrt(head_dim), without a scale.
int AddUnscaledQkNorm(SegmentBuilder& layer, const Heads& heads, int x) {
  const auto normed = static_cast<double>(heads.q_cols() + heads.kv_cols());
  const int qkv = layer.graph().Value("qkv", heads.cols());
  layer.graph().Add("qk_norm",
                    Planned(layer, "unscaled_qk_norm", x, 4.0 * normed,
                            2.0 * static_cast<double>(heads.cols()), {{0}, {}, false}),
                    {x}, {qkv});
  return qkv;
}

std::vector<bool> ReadMarks(const HubConfig& config, const std::string& key, int64_t layers) {
  const Json marks = config.json().value(key, Json::array());
  if (!marks.is_array() || (!marks.empty() && static_cast<int64_t>(marks.size()) < layers)) {
    throw RunError("{}: '{}' has to list 1 or 0 for each of {} layers", config.place(), key,
                   layers);
  }
  std::vector<bool> result;
  for (const Json& mark : marks) result.push_back(mark == 1 || mark == true);
  // Every fourth layer goes without rope.
  for (auto i = static_cast<int64_t>(result.size()); i < layers; ++i) {
    result.push_back((i + 1) % 4 != 0);
  }
  return result;
}

std::vector<bool> ReadExpertLayers(const HubConfig& config, int64_t layers) {
  std::vector<bool> result(static_cast<size_t>(layers), false);
  if (config.Has("moe_layers")) {
    for (const Json& layer : config.json().at("moe_layers")) {
      if (layer.is_number_integer() && layer >= 0 && layer < layers) {
        result[layer.get<size_t>()] = true;
      }
    }
    return result;
  }
  const int64_t step = config.PositiveIntOr("interleave_moe_layer_step", 1);
  for (int64_t i = step - 1; i < layers; i += step) result[static_cast<size_t>(i)] = true;
  return result;
}

ExpertsSpec ReadExperts(const HubConfig& config, const DecoderSpec& spec) {
  ExpertsSpec experts;
  experts.experts = config.PositiveInt("num_local_experts");
  experts.top_k = config.PositiveInt("num_experts_per_tok");
  experts.intermediate = spec.intermediate;
  experts.router = "feed_forward.router";
  experts.prefix = "feed_forward.experts.";
  experts.stacked = true;
  experts.transposed = true;
  experts.shared = "feed_forward.shared_expert.";
  experts.shared_intermediate = spec.intermediate;
  return experts;
}

void AddLlama4Layers(ModelBuilder& model, const DecoderSpec& spec, const HubConfig& config,
                     const std::string& prefix) {
  const RopeFrequencies rope = ReadRopeFrequencies(config, spec.heads.dim, {5e5, ""});
  const std::vector<bool> rotary = ReadMarks(config, "no_rope_layers", spec.layers);
  const std::vector<bool> with_experts = ReadExpertLayers(config, spec.layers);
  const ExpertsSpec experts = ReadExperts(config, spec);
  const int64_t chunk = config.PositiveIntOr("attention_chunk_size", 8192);
  const bool qk_norm = config.BoolOr("use_qk_norm", true);
  const bool bias = config.BoolOr("attention_bias", false);
  const int64_t dense = config.PositiveIntOr("intermediate_size_mlp", 16384);
  for (int64_t i = 0; i < spec.layers; ++i) {
    const auto at = static_cast<size_t>(i);
    SegmentBuilder layer = MakeLayer(model, i, prefix);
    const int x = layer.graph().LiveIn("x", spec.hidden);
    const int norm1 = layer.Norm("norm1", x, "input_layernorm", spec.norm);
    const bool normed = rotary[at] && qk_norm;
    int qkv = AddQkv(layer, spec, norm1, bias, normed ? "qkv_in" : "qkv");
    if (normed) qkv = AddUnscaledQkNorm(layer, spec.heads, qkv);
    if (rotary[at]) AddRope(layer, spec.heads, rope, qkv, /*interleaved=*/true);
    const AttentionVariant variant = rotary[at]
                                         ? AttentionVariant{"chunked_attention", chunk, 0, {}}
                                         : AttentionVariant{"tempered_attention", 0, 0, {}};
    const int attn = AddAttentionVariant(layer, spec.heads, qkv, variant);
    const int mid = layer.Project({"o", "mid", {{"self_attn.o_proj", spec.hidden}}, bias}, attn, x);
    const int norm2 = layer.Norm("norm2", mid, "post_attention_layernorm", spec.norm);
    if (with_experts[at]) {
      AddExperts(layer, experts, i, norm2, mid);
    } else {
      const int gate_up =
          layer.Project({"gate_up",
                         "gate_up",
                         {{"feed_forward.gate_proj", dense}, {"feed_forward.up_proj", dense}}},
                        norm2);
      layer.Project({"down", "out", {{"feed_forward.down_proj", spec.hidden}}},
                    AddSwiglu(layer, gate_up), mid);
    }
    AddLayer(model, std::move(layer));
  }
}

ValueSource AddLlama4Vision(ModelBuilder& model, const HubConfig& config, int64_t text_hidden) {
  VisionSpec spec;
  spec.prefix = "vision_model.";
  spec.hidden = config.PositiveInt("hidden_size");
  spec.intermediate = config.PositiveInt("intermediate_size");
  spec.layers = config.PositiveInt("num_hidden_layers");
  spec.heads = config.PositiveInt("num_attention_heads");
  const int64_t side = config.PositiveInt("patch_size");
  const int64_t across = config.PositiveInt("image_size") / side;
  spec.patch_shape = {config.PositiveIntOr("num_channels", 3) * side * side};
  spec.patch = "patch_embedding.linear";
  spec.patch_bias = false;
  spec.positions = across * across + 1;
  spec.span = spec.positions;
  spec.position = "positional_embedding_vlm";
  spec.class_token = "class_embedding";
  spec.pre_norm = "layernorm_pre";
  spec.post_norm = "layernorm_post";
  spec.layer_prefix = "model.layers.";
  spec.norm1 = "input_layernorm";
  spec.norm2 = "post_attention_layernorm";
  spec.o = "self_attn.o_proj";
  AddVisionTower(model, spec);

  const int64_t wide = config.PositiveInt("projector_input_dim");
  const int64_t out = config.PositiveInt("projector_output_dim");
  const bool bias = config.BoolOr("multi_modal_projector_bias", false);
  SegmentBuilder segment("vision.projector", "projector", "", model.options().dtype);
  const int x = segment.graph().LiveIn("x", spec.hidden, Extent::kPatches);
  const int joined = AddPatchMerge(segment, "joined", x, 4);  // pixel shuffle by a half each way
  const int fc1 =
      segment.Project({"fc1", "fc1", {{"vision_model.vision_adapter.mlp.fc1", wide}}}, joined);
  const int act1 = AddActivation(segment, "act1", fc1, "gelu", false);
  const int fc2 =
      segment.Project({"fc2", "fc2", {{"vision_model.vision_adapter.mlp.fc2", out}}}, act1);
  const int act2 = AddActivation(segment, "act2", fc2, "gelu", false);
  segment.Project({"linear", "out", {{"multi_modal_projector.linear_1", text_hidden}}, bias}, act2);
  AddLayer(model, std::move(segment));
  return model.Last();
}

}  // namespace

ModelGraph BuildLlama4(const HubConfig& file, const GraphOptions& options) {
  const std::optional<HubConfig> inner = file.Object("text_config");
  const HubConfig& config = inner ? *inner : file;
  DecoderSpec spec = ReadDecoderSpec(config);
  spec.architecture = file.String("model_type");
  ModelBuilder model(spec.architecture, options);
  const std::string text = inner ? "language_model.model." : "model.";
  std::optional<ValueSource> images;
  if (const std::optional<HubConfig> vision = file.Object("vision_config")) {
    images = AddLlama4Vision(model, *vision, spec.hidden);
  }
  AddEmbedding(model, spec, text + "embed_tokens");
  if (images) AddImageTokens(model, spec.hidden, *images);
  AddLlama4Layers(model, spec, config, text + "layers.");
  return FinishDecoder(model, spec, {text + "norm", inner ? "language_model.lm_head" : "lm_head"});
}

}  // namespace lazytrain
