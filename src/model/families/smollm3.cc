// SmolLM3 (Bakouch et al. 2025): every fourth layer, or those that `no_rope_layers` marks with 0,
// does not turn its queries and keys.
#include "core/error.h"
#include "model/families/decoder.h"

namespace lazytrain {
namespace {

// For each layer, whether it has rotary embeddings.
std::vector<bool> ReadRotaryLayers(const HubConfig& config, int64_t layers) {
  std::vector<bool> rotary;
  if (!config.Has("no_rope_layers")) {
    const int64_t interval = config.PositiveIntOr("no_rope_layer_interval", 4);
    for (int64_t i = 0; i < layers; ++i) rotary.push_back((i + 1) % interval != 0);
    return rotary;
  }
  const Json& marks = config.json().at("no_rope_layers");
  if (!marks.is_array() || static_cast<int64_t>(marks.size()) < layers) {
    throw RunError("{}: 'no_rope_layers' has to list 1 (rope) or 0 for each of {} layers",
                   config.place(), layers);
  }
  for (const Json& mark : marks) {
    const bool known = mark.is_boolean() || mark == 0 || mark == 1;
    if (!known) {
      throw RunError("{}: 'no_rope_layers' holds {}; it has to list 1 (rope) or 0", config.place(),
                     mark.dump());
    }
    rotary.push_back(mark == 1 || mark == true);
  }
  return rotary;
}

std::vector<int64_t> ReadWindows(const HubConfig& config, const std::vector<bool>& rotary,
                                 int64_t layers) {
  std::vector<int64_t> windows(static_cast<size_t>(layers), 0);
  const std::vector<std::string> types = ReadLayerTypes(config, layers);
  if (!config.Has("sliding_window")) return windows;
  // Listed types hold whatever use_sliding_window says.
  const bool unlisted = config.BoolOr("use_sliding_window", false);
  for (size_t i = 0; i < windows.size(); ++i) {
    const bool slides = types.empty() ? unlisted && !rotary[i] : types[i] == "sliding_attention";
    if (slides) windows[i] = config.PositiveInt("sliding_window");
  }
  return windows;
}

}  // namespace

ModelGraph BuildSmolLm3(const HubConfig& file, const GraphOptions& options) {
  const HubConfig config = file.WithDefaults({{"num_key_value_heads", 4},
                                              {"max_position_embeddings", 32768},
                                              {"tie_word_embeddings", true}});
  const DecoderSpec spec = ReadDecoderSpec(config);
  const RopeFrequencies rope = ReadRopeFrequencies(config, spec.heads.dim, {2e6, ""});
  const std::vector<bool> rotary = ReadRotaryLayers(config, spec.layers);
  const std::vector<int64_t> windows = ReadWindows(config, rotary, spec.layers);
  const bool attention_bias = config.BoolOr("attention_bias", false);
  const bool mlp_bias = config.BoolOr("mlp_bias", false);

  ModelBuilder model(spec.architecture, options);
  AddEmbedding(model, spec);
  for (size_t i = 0; i < windows.size(); ++i) {
    SegmentBuilder layer = MakeLayer(model, static_cast<int64_t>(i));
    const int x = layer.graph().LiveIn("x", spec.hidden);
    const int norm1 = layer.Norm("norm1", x, "input_layernorm", spec.norm);
    const int qkv = AddQkv(layer, spec, norm1, attention_bias);
    if (rotary[i]) AddRope(layer, spec.heads, rope, qkv);
    const int attn = AddAttention(layer, spec.heads, qkv, windows[i]);
    const int mid =
        layer.Project({"o", "mid", {{"self_attn.o_proj", spec.hidden}}, attention_bias}, attn, x);
    const int norm2 = layer.Norm("norm2", mid, "post_attention_layernorm", spec.norm);
    AddMlp(layer, spec, norm2, mid, mlp_bias);
    AddLayer(model, std::move(layer));
  }
  return FinishDecoder(model, spec);
}

}  // namespace lazytrain
