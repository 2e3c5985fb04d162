// A vision tower in front of a decoder that exists by itself: LLaVA 1.5 (Liu et al. 2023), InternVL
// 2.5 (Chen et al. 2024), MiniCPM-V (Yao et al. 2024), Qwen2.5-VL and Qwen3-VL (Bai et al. 2025).
// Planned, not run.
#include <string>

#include "core/error.h"
#include "model/families/decoder.h"
#include "model/families/planned_blocks.h"
#include "model/families/vision.h"

namespace lazytrain {
namespace {

HubConfig RequireObject(const HubConfig& config, const std::string& key) {
  if (const std::optional<HubConfig> object = config.Object(key)) return *object;
  throw RunError("{}: '{}' is missing", config.place(), key);
}

// The sizes that most towers name alike.
VisionSpec ReadVisionSpec(const HubConfig& config, const std::string& prefix) {
  VisionSpec spec;
  spec.prefix = prefix;
  spec.hidden = config.PositiveInt("hidden_size");
  spec.intermediate = config.PositiveInt("intermediate_size");
  spec.layers = config.PositiveInt("num_hidden_layers");
  spec.heads = config.PositiveInt("num_attention_heads");
  const int64_t side = config.PositiveInt("patch_size");
  const int64_t across = config.PositiveInt("image_size") / side;
  spec.patch_shape = {config.PositiveIntOr("num_channels", 3), side, side};
  spec.positions = across * across;
  spec.span = spec.positions;
  return spec;
}

DecoderSpec ReadTextSpec(const HubConfig& file, const HubConfig& text) {
  DecoderSpec spec = ReadDecoderSpec(text);
  spec.architecture = file.String("model_type");
  spec.tied_head = file.BoolOr("tie_word_embeddings", spec.tied_head);
  return spec;
}

// image tokens = W2 gelu(W1 x + b1) + b2
ValueSource AddMlpProjector(ModelBuilder& model, int64_t hidden, int64_t text_hidden) {
  SegmentBuilder segment("vision.projector", "projector", "multi_modal_projector.",
                         model.options().dtype);
  const int x = segment.graph().LiveIn("x", hidden, Extent::kPatches);
  const int tokens = AddPatchMerge(segment, "tokens", x, 1);
  const int fc1 = segment.Project({"linear_1", "fc1", {{"linear_1", text_hidden}}, true}, tokens);
  const int act = AddActivation(segment, "act", fc1, "gelu", false);
  segment.Project({"linear_2", "out", {{"linear_2", text_hidden}}, true}, act);
  AddLayer(model, std::move(segment));
  return model.Last();
}

// Cross attention of `queries` learned queries to an image's patches (MiniCPM-V's resampler).
ValueSource AddResampler(ModelBuilder& model, int64_t hidden, int64_t text_hidden,
                         int64_t queries) {
  SegmentBuilder segment("vision.resampler", "resampler", "resampler.", model.options().dtype);
  GraphBuilder& graph = segment.graph();
  const DType dtype = segment.dtype();
  const auto width = static_cast<double>(text_hidden);
  const int x = graph.LiveIn("x", hidden, Extent::kPatches);
  const int kv = segment.Project({"kv", "kv", {{"kv_proj", text_hidden}}}, x);
  const int normed = AddLayerNorm(segment, "kv_norm", kv, "ln_kv");
  const std::vector<WeightRef> weights = {
      segment.Matrix("query", text_hidden, {{"query", queries}}),
      segment.Vector("ln_q", Init::kOnes, {{"ln_q.weight", text_hidden}}),
      segment.Vector("ln_q.bias", Init::kZeros, {{"ln_q.bias", text_hidden}}),
      segment.Matrix("in_proj", text_hidden, {{"attn.in_proj_weight", 3 * text_hidden}}),
      segment.Vector("in_proj.bias", Init::kZeros, {{"attn.in_proj_bias", 3 * text_hidden}})};
  const int attn = graph.Value("attn", dtype, Extent::kImageTokens, text_hidden);
  // Keys and values of every patch, and its product with every query.
  graph.Add("attention",
            Planned(segment, "resampler_attention", normed,
                    4.0 * width * width + 4.0 * static_cast<double>(queries) * width, 4.0 * width,
                    {{0}, {0}, true}),
            {normed}, {attn}, weights);
  const int o = segment.Project({"o", "o", {{"attn.out_proj", text_hidden}}, true}, attn);
  const int post = AddLayerNorm(segment, "post_norm", o, "ln_post");
  ParameterSpec projection = MatrixOf("projection", dtype, text_hidden, {{"proj", text_hidden}});
  graph.Add("projection",
            Planned(segment, "transposed_linear", post, 2.0 * width * width, 2.0 * width,
                    {{0}, {}, true}),
            {post}, {graph.Value("out", dtype, Extent::kImageTokens, text_hidden)},
            {segment.Weight(std::move(projection))});
  AddLayer(model, std::move(segment));
  return model.Last();
}

}  // namespace

ModelGraph BuildLlava(const HubConfig& file, const GraphOptions& options) {
  // What the files of the release leave out.
  const HubConfig text = RequireObject(file, "text_config")
                             .WithDefaults({{"hidden_size", 4096},
                                            {"intermediate_size", 11008},
                                            {"num_hidden_layers", 32},
                                            {"num_attention_heads", 32},
                                            {"vocab_size", 32000}});
  if (text.StringOr("model_type", "llama") != "llama") {
    throw RunError("{}: 'model_type' is '{}'; LLaVA is known with llama", text.place(),
                   text.String("model_type"));
  }
  const DecoderSpec spec = ReadTextSpec(file, text);
  // CLIP (Radford et al. 2021).
  VisionSpec vision =
      ReadVisionSpec(RequireObject(file, "vision_config"), "vision_tower.vision_model.");
  vision.positions += 1;
  vision.patch_bias = false;
  vision.class_token = "embeddings.class_embedding";
  vision.pre_norm = "pre_layrnorm";
  vision.post_norm = "post_layernorm";
  vision.activation = "quick_gelu";

  ModelBuilder model(spec.architecture, options);
  AddVisionTower(model, vision);
  const ValueSource images = AddMlpProjector(model, vision.hidden, spec.hidden);
  AddEmbedding(model, spec, "language_model.model.embed_tokens");
  AddImageTokens(model, spec.hidden, images);
  AddLlamaLayers(model, spec, text, "language_model.model.layers.");
  return FinishDecoder(model, spec, {"language_model.model.norm", "language_model.lm_head"});
}

ModelGraph BuildInternVl(const HubConfig& file, const GraphOptions& options) {
  const HubConfig text = RequireObject(file, "llm_config");
  RequireOneOf(text, "model_type", {"internlm2"});
  const DecoderSpec spec = ReadTextSpec(file, text);
  const HubConfig tower = RequireObject(file, "vision_config");
  VisionSpec vision = ReadVisionSpec(tower, "vision_model.");
  if (tower.BoolOr("qk_normalization", false) || !tower.BoolOr("qkv_bias", true)) {
    throw RunError("{}: 'qk_normalization' true and 'qkv_bias' false are not supported",
                   tower.place());
  }
  vision.positions += 1;
  vision.position = "embeddings.position_embedding";
  vision.position_shape = {1, vision.positions, vision.hidden};
  vision.class_token = "embeddings.class_embedding";
  vision.class_shape = {1, 1, vision.hidden};
  vision.norm1 = "norm1";
  vision.norm2 = "norm2";
  vision.qkv = {"attn.qkv"};
  vision.o = "attn.proj";
  vision.scale1 = "ls1";
  vision.scale2 = "ls2";

  ModelBuilder model(spec.architecture, options);
  AddVisionTower(model, vision);
  SegmentBuilder projector("vision.projector", "projector", "mlp1.", options.dtype);
  const int x = projector.graph().LiveIn("x", vision.hidden, Extent::kPatches);
  const int joined = AddPatchMerge(projector, "joined", x, 4);  // pixel shuffle by a half each way
  const int norm = AddLayerNorm(projector, "norm", joined, "0");
  const int fc1 = projector.Project({"1", "fc1", {{"1", spec.hidden}}, true}, norm);
  const int act = AddActivation(projector, "act", fc1, "gelu", false);
  projector.Project({"3", "out", {{"3", spec.hidden}}, true}, act);
  AddLayer(model, std::move(projector));
  const ValueSource images = model.Last();
  AddEmbedding(model, spec, "language_model.model.tok_embeddings");
  AddImageTokens(model, spec.hidden, images);
  AddInternLm2Layers(model, spec, text, "language_model.model.layers.");
  return FinishDecoder(model, spec, {"language_model.model.norm", "language_model.output"});
}

ModelGraph BuildMiniCpmV(const HubConfig& file, const GraphOptions& options) {
  const DecoderSpec spec = ReadTextSpec(file, file);
  VisionSpec vision = ReadVisionSpec(RequireObject(file, "vision_config"), "vpm.");
  vision.post_norm = "post_layernorm";
  vision.activation = "gelu_tanh";
  if (file.BoolOr("drop_vision_last_layer", false)) vision.layers -= 1;

  ModelBuilder model(spec.architecture, options);
  AddVisionTower(model, vision);
  const ValueSource images =
      AddResampler(model, vision.hidden, spec.hidden, file.PositiveInt("query_num"));
  AddEmbedding(model, spec, "llm.model.embed_tokens");
  AddImageTokens(model, spec.hidden, images);
  // 2.6 is built on Qwen2, later versions on Llama's architecture.
  if (file.NumberOr("version", 0.0) == 2.6) {
    AddQwen2Layers(model, spec, file, "llm.model.layers.");
  } else {
    AddLlamaLayers(model, spec, file, "llm.model.layers.");
  }
  return FinishDecoder(model, spec, {"llm.model.norm", "llm.lm_head"});
}

ModelGraph BuildQwen25Vl(const HubConfig& file, const GraphOptions& options) {
  const DecoderSpec spec = ReadTextSpec(file, file);
  const HubConfig tower = RequireObject(file, "vision_config");
  VisionSpec vision;
  vision.prefix = "visual.";
  vision.hidden = tower.PositiveInt("hidden_size");
  vision.intermediate = tower.PositiveInt("intermediate_size");
  vision.layers = tower.PositiveInt("depth");
  vision.heads = tower.PositiveInt("num_heads");
  const int64_t side = tower.PositiveInt("patch_size");
  vision.patch_shape = {tower.PositiveIntOr("in_chans", 3),
                        tower.PositiveInt("temporal_patch_size"), side, side};
  // Most layers attend within windows of the image.
  const int64_t across = tower.PositiveInt("window_size") / side;
  vision.span = across * across;
  vision.patch = "patch_embed.proj";
  vision.patch_bias = false;
  vision.layer_prefix = "blocks.";
  vision.norm1 = "norm1";
  vision.norm2 = "norm2";
  vision.qkv = {"attn.qkv"};
  vision.o = "attn.proj";
  vision.fc1 = {"mlp.gate_proj", "mlp.up_proj"};
  vision.fc2 = "mlp.down_proj";
  vision.activation = "silu";
  vision.rms_norm = true;

  ModelBuilder model(spec.architecture, options);
  AddVisionTower(model, vision);
  SegmentBuilder merger("vision.merger", "merger", "visual.merger.", options.dtype);
  const int64_t merge = tower.PositiveInt("spatial_merge_size");
  const int x = merger.graph().LiveIn("x", vision.hidden, Extent::kPatches);
  const int norm = merger.Norm("norm", x, "ln_q", NormSpec{});
  const int joined = AddPatchMerge(merger, "joined", norm, merge * merge);
  const int fc1 = merger.Project({"mlp.0", "fc1", {{"mlp.0", merger.cols(joined)}}, true}, joined);
  const int act = AddActivation(merger, "act", fc1, "gelu", false);
  merger.Project({"mlp.2", "out", {{"mlp.2", spec.hidden}}, true}, act);
  AddLayer(model, std::move(merger));
  const ValueSource images = model.Last();
  AddEmbedding(model, spec);
  AddImageTokens(model, spec.hidden, images);
  AddQwen2Layers(model, spec, file, "model.layers.");
  return FinishDecoder(model, spec);
}

ModelGraph BuildQwen3Vl(const HubConfig& file, const GraphOptions& options) {
  const HubConfig text = RequireObject(file, "text_config").WithDefaults({{"head_dim", 128}});
  const DecoderSpec spec = ReadTextSpec(file, text);
  ModelBuilder model(spec.architecture, options);
  const QwenVision vision =
      AddQwenVision(model, RequireObject(file, "vision_config"), "model.visual.");
  AddEmbedding(model, spec, "model.language_model.embed_tokens");
  AddImageTokens(model, spec.hidden, vision.tokens);
  for (int64_t i = 0; i < spec.layers; ++i) {
    AddQwen3Layer(model, spec, text, "model.language_model.layers.", i);
    const auto at = static_cast<size_t>(i);
    if (at < vision.deep.size()) AddImageTokens(model, spec.hidden, vision.deep[at]);
  }
  return FinishDecoder(model, spec, {"model.language_model.norm", "lm_head"});
}

}  // namespace lazytrain
