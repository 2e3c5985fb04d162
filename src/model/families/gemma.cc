// Gemma 2 and 3 (Gemma team 2024, 2025): scaled embeddings, norms before and behind attention and
// MLP whose stored scale is the distance from 1, GELU. Gemma 2 caps logits softly; Gemma 3
// normalises queries and keys and reads images. Planned, not run.
#include <cmath>
#include <optional>

#include "core/error.h"
#include "model/families/decoder.h"
#include "model/families/planned_blocks.h"
#include "model/families/vision.h"

namespace lazytrain {
namespace {

DecoderSpec ReadGemmaSpec(const HubConfig& config) {
  Json json = config.json();
  // Checked here: ReadDecoderSpec knows SiLU only.
  json.erase("hidden_act");
  RequireOneOf(config, "hidden_activation", {"gelu_pytorch_tanh"});
  DecoderSpec spec = ReadDecoderSpec(HubConfig(std::move(json), config.place()));
  spec.norm.scale_offset = 1.0f;
  return spec;
}

// What differs between layers of one type.
struct LayerKind {
  int64_t window = 0;
  RopeFrequencies rope;
};

// By layer type: every `interval`-th layer sees everything, where the file does not say.
std::vector<LayerKind> KindsOf(const HubConfig& config, const DecoderSpec& spec, int64_t interval,
                               const LayerKind& sliding, const LayerKind& full) {
  std::vector<std::string> types = ReadLayerTypes(config, spec.layers);
  for (auto i = static_cast<int64_t>(types.size()); i < spec.layers; ++i) {
    types.emplace_back((i + 1) % interval == 0 ? "full_attention" : "sliding_attention");
  }
  std::vector<LayerKind> kinds;
  kinds.reserve(types.size());
  for (const std::string& type : types) {
    kinds.push_back(type == "sliding_attention" ? sliding : full);
  }
  return kinds;
}

void AddGemmaLayers(ModelBuilder& model, const DecoderSpec& spec, const HubConfig& config,
                    const std::vector<LayerKind>& kinds, const std::string& prefix) {
  const bool bias = config.BoolOr("attention_bias", false);
  const bool qk_norm = !config.Has("attn_logit_softcapping");
  for (size_t i = 0; i < kinds.size(); ++i) {
    SegmentBuilder layer = MakeLayer(model, static_cast<int64_t>(i), prefix);
    const int x = layer.graph().LiveIn("x", spec.hidden);
    const int norm1 = layer.Norm("norm1", x, "input_layernorm", spec.norm);
    int qkv = AddQkv(layer, spec, norm1, bias, qk_norm ? "qkv_in" : "qkv");
    if (qk_norm) qkv = AddQkNorm(layer, spec, qkv, /*per_head=*/true);
    AddRope(layer, spec.heads, kinds[i].rope, qkv);
    const int attn = AddAttentionVariant(
        layer, spec.heads, qkv,
        {qk_norm ? "scaled_attention" : "soft_capped_attention", kinds[i].window, 0, {}});
    const int o = layer.Project({"o", "o", {{"self_attn.o_proj", spec.hidden}}, bias}, attn);
    const int mid = layer.Norm("mid", o, "post_attention_layernorm", spec.norm, x);
    const int norm2 = layer.Norm("norm2", mid, "pre_feedforward_layernorm", spec.norm);
    const int gate_up =
        layer.Project({"gate_up",
                       "gate_up",
                       {{"mlp.gate_proj", spec.intermediate}, {"mlp.up_proj", spec.intermediate}}},
                      norm2);
    const int act = AddActivation(layer, "act", gate_up, "gelu_tanh", /*gated=*/true);
    const int down = layer.Project({"down", "down", {{"mlp.down_proj", spec.hidden}}}, act);
    layer.Norm("out", down, "post_feedforward_layernorm", spec.norm, mid);
    AddLayer(model, std::move(layer));
  }
}

double EmbeddingScale(const DecoderSpec& spec) {
  return std::sqrt(static_cast<double>(spec.hidden));
}

// SigLIP (Zhai et al. 2023), then 16 patches of each image become one token.
ValueSource AddGemmaVision(ModelBuilder& model, const HubConfig& config, int64_t image_tokens,
                           int64_t text_hidden) {
  VisionSpec spec;
  spec.prefix = "vision_tower.vision_model.";
  spec.hidden = config.PositiveInt("hidden_size");
  spec.intermediate = config.PositiveInt("intermediate_size");
  spec.layers = config.PositiveInt("num_hidden_layers");
  spec.heads = config.PositiveInt("num_attention_heads");
  const int64_t side = config.PositiveInt("patch_size");
  const int64_t across = config.PositiveInt("image_size") / side;
  spec.patch_shape = {3, side, side};
  spec.positions = across * across;
  spec.span = spec.positions;
  spec.post_norm = "post_layernorm";
  spec.activation = "gelu_tanh";
  AddVisionTower(model, spec);

  SegmentBuilder segment("vision.projector", "projector", "multi_modal_projector.",
                         model.options().dtype);
  const int x = segment.graph().LiveIn("x", spec.hidden, Extent::kPatches);
  const int pooled =
      segment.graph().Value("pooled", segment.dtype(), Extent::kImageTokens, spec.hidden);
  segment.graph().Add("average_pool",
                      Planned(segment, "average_pool", x, static_cast<double>(spec.hidden),
                              static_cast<double>(spec.hidden), {{}, {}, false}),
                      {x}, {pooled});
  if (spec.positions % image_tokens != 0) {
    throw RunError("{}: {} patches cannot become 'mm_tokens_per_image' {}", config.place(),
                   spec.positions, image_tokens);
  }
  const int norm = segment.Norm("norm", pooled, "mm_soft_emb_norm", {1e-6f, 1.0f});
  ParameterSpec weight = MatrixOf("projection", segment.dtype(), spec.hidden,
                                  {{"mm_input_projection_weight", text_hidden}});
  weight.tensors[0].shape = {spec.hidden, text_hidden};  // stored as [in, out]
  const int out = segment.graph().Value("out", segment.dtype(), Extent::kImageTokens, text_hidden);
  const auto products = static_cast<double>(spec.hidden * text_hidden);
  segment.graph().Add("projection",
                      Planned(segment, "transposed_linear", norm, 2.0 * products,
                              static_cast<double>(spec.hidden + text_hidden), {{0}, {}, true}),
                      {norm}, {out}, {segment.Weight(std::move(weight))});
  AddLayer(model, std::move(segment));
  return model.Last();
}

}  // namespace

ModelGraph BuildGemma2(const HubConfig& file, const GraphOptions& options) {
  const HubConfig config = file.WithDefaults(
      {{"tie_word_embeddings", true}, {"sliding_window", 4096}, {"attn_logit_softcapping", 50.0}});
  const DecoderSpec spec = ReadGemmaSpec(config);
  const RopeFrequencies rope = ReadRopeFrequencies(config, spec.heads.dim);
  const LayerKind sliding{config.PositiveInt("sliding_window"), rope};
  ModelBuilder model(spec.architecture, options);
  AddEmbedding(model, spec, "model.embed_tokens", EmbeddingScale(spec));
  AddGemmaLayers(model, spec, config, KindsOf(config, spec, 2, sliding, {0, rope}),
                 "model.layers.");
  HeadSpec head;
  head.kind = HeadKind::kSoftCapped;
  return FinishDecoder(model, spec, head);
}

ModelGraph BuildGemma3(const HubConfig& file, const GraphOptions& options) {
  const std::optional<HubConfig> inner = file.Object("text_config");
  // What the files of the release leave out.
  const HubConfig config = (inner ? *inner : file)
                               .WithDefaults({{"model_type", "gemma3_text"},
                                              {"vocab_size", 262208},
                                              {"num_attention_heads", 8},
                                              {"num_key_value_heads", 4},
                                              {"head_dim", 256},
                                              {"max_position_embeddings", 131072},
                                              {"tie_word_embeddings", true},
                                              {"sliding_window", 4096}});
  DecoderSpec spec = ReadGemmaSpec(config);
  spec.architecture = file.String("model_type");
  Json local = config.json();
  local.erase("rope_scaling");
  local["rope_theta"] = config.NumberOr("rope_local_base_freq", 10000.0);
  const LayerKind sliding{config.PositiveInt("sliding_window"),
                          ReadRopeFrequencies(HubConfig(local, config.place()), spec.heads.dim,
                                              {10000.0, "sliding_attention"})};
  const LayerKind full{0, ReadRopeFrequencies(config, spec.heads.dim, {1e6, "full_attention"})};
  const int64_t interval = config.PositiveIntOr("sliding_window_pattern", 6);

  ModelBuilder model(spec.architecture, options);
  const std::string text = inner ? "language_model.model." : "model.";
  std::optional<ValueSource> images;
  if (const std::optional<HubConfig> vision = file.Object("vision_config")) {
    images =
        AddGemmaVision(model, *vision, file.PositiveIntOr("mm_tokens_per_image", 256), spec.hidden);
  }
  AddEmbedding(model, spec, text + "embed_tokens", EmbeddingScale(spec));
  if (images) AddImageTokens(model, spec.hidden, *images);
  AddGemmaLayers(model, spec, config, KindsOf(config, spec, interval, sliding, full),
                 text + "layers.");
  return FinishDecoder(model, spec, {text + "norm", "lm_head"});
}

}  // namespace lazytrain
