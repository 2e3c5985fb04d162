// OLMo 2 and 3 (OLMo team 2024, 2025): norms behind attention and MLP instead of before them,
// queries and keys normalised over all heads together. OLMo 3 has a sliding window in three of four
// layers.
#include "model/families/decoder.h"

namespace lazytrain {
namespace {

// What differs between layers.
struct LayerKind {
  int64_t window = 0;
  RopeFrequencies rope;
};

ModelGraph BuildOlmo(const HubConfig& config, const DecoderSpec& spec,
                     const std::vector<LayerKind>& kinds, const GraphOptions& options) {
  const bool bias = config.BoolOr("attention_bias", false);
  ModelBuilder model(spec.architecture, options);
  AddEmbedding(model, spec);
  for (size_t i = 0; i < kinds.size(); ++i) {
    SegmentBuilder layer = MakeLayer(model, static_cast<int64_t>(i));
    const int x = layer.graph().LiveIn("x", spec.hidden);
    const int qkv_in = AddQkv(layer, spec, x, bias, "qkv_in");
    const int qkv = AddQkNorm(layer, spec, qkv_in, /*per_head=*/false);
    AddRope(layer, spec.heads, kinds[i].rope, qkv);
    const int attn = AddAttention(layer, spec.heads, qkv, kinds[i].window);
    const int o = layer.Project({"o", "o", {{"self_attn.o_proj", spec.hidden}}, bias}, attn);
    const int mid = layer.Norm("mid", o, "post_attention_layernorm", spec.norm, x);
    const int gate_up =
        layer.Project({"gate_up",
                       "gate_up",
                       {{"mlp.gate_proj", spec.intermediate}, {"mlp.up_proj", spec.intermediate}}},
                      mid);
    const int down = layer.Project({"down", "down", {{"mlp.down_proj", spec.hidden}}},
                                   AddSwiglu(layer, gate_up));
    layer.Norm("out", down, "post_feedforward_layernorm", spec.norm, mid);
    AddLayer(model, std::move(layer));
  }
  return FinishDecoder(model, spec);
}

}  // namespace

ModelGraph BuildOlmo2(const HubConfig& file, const GraphOptions& options) {
  const HubConfig config = file.WithDefaults({{"rms_norm_eps", 1e-5}});
  const DecoderSpec spec = ReadDecoderSpec(config);
  const LayerKind kind{0, ReadRopeFrequencies(config, spec.heads.dim)};
  return BuildOlmo(config, spec, std::vector<LayerKind>(static_cast<size_t>(spec.layers), kind),
                   options);
}

ModelGraph BuildOlmo3(const HubConfig& file, const GraphOptions& options) {
  const HubConfig config = file.WithDefaults({{"rms_norm_eps", 1e-5}, {"sliding_window", 4096}});
  const DecoderSpec spec = ReadDecoderSpec(config);
  std::vector<std::string> types = ReadLayerTypes(config, spec.layers);
  for (auto i = static_cast<int64_t>(types.size()); i < spec.layers; ++i) {
    types.emplace_back((i + 1) % 4 == 0 ? "full_attention" : "sliding_attention");
  }
  // Scaling in the spelling of 4.x belongs to the layers without a window.
  Json unscaled = config.json();
  unscaled.erase("rope_scaling");
  const HubConfig sliding_config(std::move(unscaled), config.place());
  const LayerKind sliding{
      config.PositiveIntOr("sliding_window", 0),
      ReadRopeFrequencies(sliding_config, spec.heads.dim, {5e5, "sliding_attention"})};
  const LayerKind full{0, ReadRopeFrequencies(config, spec.heads.dim, {5e5, "full_attention"})};
  std::vector<LayerKind> kinds;
  kinds.reserve(types.size());
  for (const std::string& type : types) {
    kinds.push_back(type == "sliding_attention" ? sliding : full);
  }
  return BuildOlmo(config, spec, kinds, options);
}

}  // namespace lazytrain
