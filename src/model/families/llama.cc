// Llama 2 and 3 (Touvron et al. 2023; Grattafiori et al. 2024), and models published in its format:
// Yi, DeepSeek LLM, SmolLM2, Vicuna.
#include "model/families/decoder.h"

namespace lazytrain {

void AddLlamaLayers(ModelBuilder& model, const DecoderSpec& spec, const HubConfig& config,
                    const std::string& prefix) {
  const RopeFrequencies rope = ReadRopeFrequencies(config, spec.heads.dim);
  const bool attention_bias = config.BoolOr("attention_bias", false);
  const bool mlp_bias = config.BoolOr("mlp_bias", false);
  for (int64_t i = 0; i < spec.layers; ++i) {
    SegmentBuilder layer = MakeLayer(model, i, prefix);
    const int x = layer.graph().LiveIn("x", spec.hidden);
    const int norm1 = layer.Norm("norm1", x, "input_layernorm", spec.norm);
    const int qkv = AddQkv(layer, spec, norm1, attention_bias);
    AddRope(layer, spec.heads, rope, qkv);
    const int attn = AddAttention(layer, spec.heads, qkv);
    const int mid =
        layer.Project({"o", "mid", {{"self_attn.o_proj", spec.hidden}}, attention_bias}, attn, x);
    const int norm2 = layer.Norm("norm2", mid, "post_attention_layernorm", spec.norm);
    AddMlp(layer, spec, norm2, mid, mlp_bias);
    AddLayer(model, std::move(layer));
  }
}

ModelGraph BuildLlama(const HubConfig& config, const GraphOptions& options) {
  const DecoderSpec spec = ReadDecoderSpec(config);
  ModelBuilder model(spec.architecture, options);
  AddEmbedding(model, spec);
  AddLlamaLayers(model, spec, config, "model.layers.");
  return FinishDecoder(model, spec);
}

}  // namespace lazytrain
