// Phi-3, Phi-3.5 and Phi-4 (Abdin et al. 2024): fused qkv and gate_up tensors, rope on a part of
// each head, LongRoPE.
#include "core/error.h"
#include "model/families/decoder.h"

namespace lazytrain {
namespace {

// Files of the first releases call LongRoPE "su" or "yarn".
HubConfig WithCurrentRopeName(const HubConfig& config) {
  Json json = config.json();
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.Object(key)) continue;
    for (const char* type : {"type", "rope_type"}) {
      if (json[key].contains(type) && json[key][type] == "yarn") json[key][type] = "longrope";
    }
  }
  return HubConfig(std::move(json), config.place());
}

}  // namespace

ModelGraph BuildPhi3(const HubConfig& file, const GraphOptions& options) {
  const HubConfig config =
      WithCurrentRopeName(file).WithDefaults({{"original_max_position_embeddings", 4096},
                                              {"max_position_embeddings", 4096},
                                              {"rms_norm_eps", 1e-5}});
  const DecoderSpec spec = ReadDecoderSpec(config);
  const RopeFrequencies rope =
      ReadRopeFrequencies(config, RotaryChannels(config, spec.heads.dim, 1.0));
  const int64_t window = config.PositiveIntOr("sliding_window", 0);

  ModelBuilder model(spec.architecture, options);
  AddEmbedding(model, spec);
  for (int64_t i = 0; i < spec.layers; ++i) {
    SegmentBuilder layer = MakeLayer(model, i);
    const int x = layer.graph().LiveIn("x", spec.hidden);
    const int norm1 = layer.Norm("norm1", x, "input_layernorm", spec.norm);
    const int qkv =
        layer.Project({"qkv", "qkv", {{"self_attn.qkv_proj", spec.heads.cols()}}}, norm1);
    AddRope(layer, spec.heads, rope, qkv);
    const int attn = AddAttention(layer, spec.heads, qkv, window);
    const int mid = layer.Project({"o", "mid", {{"self_attn.o_proj", spec.hidden}}}, attn, x);
    const int norm2 = layer.Norm("norm2", mid, "post_attention_layernorm", spec.norm);
    const int gate_up =
        layer.Project({"gate_up", "gate_up", {{"mlp.gate_up_proj", 2 * spec.intermediate}}}, norm2);
    layer.Project({"down", "out", {{"mlp.down_proj", spec.hidden}}}, AddSwiglu(layer, gate_up),
                  mid);
    AddLayer(model, std::move(layer));
  }
  return FinishDecoder(model, spec);
}

}  // namespace lazytrain
