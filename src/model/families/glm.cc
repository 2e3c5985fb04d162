// GLM-4 9B of June 2024 (GLM team 2024: model_type glm, and chatglm in the files of its first
// release) and of April 2025 (glm4, with norms also behind attention and MLP): rope turns
// neighbouring channels of one half of each head.
#include "core/error.h"
#include "model/families/decoder.h"

namespace lazytrain {
namespace {

// Both files of the hub's own format: the second norms are what tells them apart.
ModelGraph BuildHubGlm(const HubConfig& file, const GraphOptions& options, bool sandwich_norms) {
  const HubConfig config = file.WithDefaults({{"num_key_value_heads", 2},
                                              {"head_dim", 128},
                                              {"max_position_embeddings", 131072},
                                              {"rms_norm_eps", 1.5625e-7}});
  const DecoderSpec spec = ReadDecoderSpec(config);
  const RopeFrequencies rope =
      ReadRopeFrequencies(config, RotaryChannels(config, spec.heads.dim, 0.5));
  const bool bias = config.BoolOr("attention_bias", true);

  ModelBuilder model(spec.architecture, options);
  AddEmbedding(model, spec);
  for (int64_t i = 0; i < spec.layers; ++i) {
    SegmentBuilder layer = MakeLayer(model, i);
    const int x = layer.graph().LiveIn("x", spec.hidden);
    const Projection o{"o", sandwich_norms ? "o" : "mid", {{"self_attn.o_proj", spec.hidden}}};
    const Projection down{
        "down", sandwich_norms ? "down" : "out", {{"mlp.down_proj", spec.hidden}}};

    const int norm1 = layer.Norm("norm1", x, "input_layernorm", spec.norm);
    const int qkv = AddQkv(layer, spec, norm1, bias);
    AddRope(layer, spec.heads, rope, qkv, /*interleaved=*/true);
    const int attn = AddAttention(layer, spec.heads, qkv);
    const int mid = sandwich_norms ? layer.Norm("mid", layer.Project(o, attn),
                                                "post_self_attn_layernorm", spec.norm, x)
                                   : layer.Project(o, attn, x);
    const int norm2 = layer.Norm("norm2", mid, "post_attention_layernorm", spec.norm);
    const int gate_up =
        layer.Project({"gate_up", "gate_up", {{"mlp.gate_up_proj", 2 * spec.intermediate}}}, norm2);
    const int act = AddSwiglu(layer, gate_up);
    if (sandwich_norms) {
      layer.Norm("out", layer.Project(down, act), "post_mlp_layernorm", spec.norm, mid);
    } else {
      layer.Project(down, act, mid);
    }
    AddLayer(model, std::move(layer));
  }
  return FinishDecoder(model, spec);
}

// The other spelling of chatglm's config.json. What it can ask for and no published model does is
// refused.
DecoderSpec ReadChatGlmSpec(const HubConfig& config) {
  for (const auto& [key, needed] : {std::pair{"rmsnorm", true},
                                    {"post_layer_norm", true},
                                    {"original_rope", true},
                                    {"apply_residual_connection_post_layernorm", false},
                                    {"add_bias_linear", false}}) {
    if (config.BoolOr(key, needed) != needed) {
      throw RunError("{}: '{}' is not {}, which this architecture does not support", config.place(),
                     key, needed);
    }
  }
  DecoderSpec spec;
  spec.architecture = config.String("model_type");
  spec.vocab_size = config.PositiveInt("padded_vocab_size");
  spec.hidden = config.PositiveInt("hidden_size");
  spec.intermediate = config.PositiveInt("ffn_hidden_size");
  spec.layers = config.PositiveInt("num_layers");
  spec.heads.q = config.PositiveInt("num_attention_heads");
  spec.heads.kv = config.BoolOr("multi_query_attention", false)
                      ? config.PositiveInt("multi_query_group_num")
                      : spec.heads.q;
  spec.heads.dim = config.PositiveIntOr("kv_channels", spec.hidden / spec.heads.q);
  if (spec.heads.q % spec.heads.kv != 0 || spec.heads.dim % 4 != 0) {
    throw RunError("{}: heads of {} channels in {} groups of {} cannot be", config.place(),
                   spec.heads.dim, spec.heads.kv, spec.heads.q);
  }
  spec.max_positions = config.PositiveIntOr("seq_length", 2048);
  spec.norm.eps = static_cast<float>(config.NumberOr("layernorm_epsilon", 1e-5));
  spec.tied_head = config.BoolOr("tie_word_embeddings", false);
  CheckSizes(spec, config);
  return spec;
}

}  // namespace

ModelGraph BuildGlm(const HubConfig& config, const GraphOptions& options) {
  return BuildHubGlm(config, options, /*sandwich_norms=*/false);
}

ModelGraph BuildGlm4(const HubConfig& config, const GraphOptions& options) {
  return BuildHubGlm(config, options, /*sandwich_norms=*/true);
}

ModelGraph BuildChatGlm(const HubConfig& config, const GraphOptions& options) {
  const DecoderSpec spec = ReadChatGlmSpec(config);
  const RopeFrequencies rope =
      UnscaledFrequencies(10000.0 * config.NumberOr("rope_ratio", 1.0), spec.heads.dim / 2);
  const bool bias = config.BoolOr("add_qkv_bias", false);

  ModelBuilder model(spec.architecture, options);
  AddEmbedding(model, spec, "transformer.embedding.word_embeddings");
  for (int64_t i = 0; i < spec.layers; ++i) {
    SegmentBuilder layer = MakeLayer(model, i, "transformer.encoder.layers.");
    const int x = layer.graph().LiveIn("x", spec.hidden);
    const int norm1 = layer.Norm("norm1", x, "input_layernorm", spec.norm);
    const int qkv = layer.Project(
        {"qkv", "qkv", {{"self_attention.query_key_value", spec.heads.cols()}}, bias}, norm1);
    AddRope(layer, spec.heads, rope, qkv, /*interleaved=*/true);
    const int attn = AddAttention(layer, spec.heads, qkv);
    const int mid = layer.Project({"o", "mid", {{"self_attention.dense", spec.hidden}}}, attn, x);
    const int norm2 = layer.Norm("norm2", mid, "post_attention_layernorm", spec.norm);
    const int gate_up = layer.Project(
        {"gate_up", "gate_up", {{"mlp.dense_h_to_4h", 2 * spec.intermediate}}}, norm2);
    layer.Project({"down", "out", {{"mlp.dense_4h_to_h", spec.hidden}}}, AddSwiglu(layer, gate_up),
                  mid);
    AddLayer(model, std::move(layer));
  }
  return FinishDecoder(model, spec,
                       {"transformer.encoder.final_layernorm", "transformer.output_layer"});
}

}  // namespace lazytrain
