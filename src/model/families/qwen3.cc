// Qwen3 (Yang et al. 2025): queries and keys are normalised head by head; biases and a sliding
// window only where the configuration turns them on.
#include "model/families/decoder.h"

namespace lazytrain {

void AddQwen3Layer(ModelBuilder& model, const DecoderSpec& spec, const HubConfig& config,
                   const std::string& prefix, int64_t index) {
  const RopeFrequencies rope = ReadRopeFrequencies(config, spec.heads.dim);
  const int64_t window = ReadQwenWindows(config, spec.layers)[static_cast<size_t>(index)];
  const bool bias = config.BoolOr("attention_bias", false);
  SegmentBuilder layer = MakeLayer(model, index, prefix);
  const int x = layer.graph().LiveIn("x", spec.hidden);
  const int norm1 = layer.Norm("norm1", x, "input_layernorm", spec.norm);
  const int qkv_in = AddQkv(layer, spec, norm1, bias, "qkv_in");
  const int qkv = AddQkNorm(layer, spec, qkv_in, /*per_head=*/true);
  AddRope(layer, spec.heads, rope, qkv);
  const int attn = AddAttention(layer, spec.heads, qkv, window);
  const int mid = layer.Project({"o", "mid", {{"self_attn.o_proj", spec.hidden}}, bias}, attn, x);
  const int norm2 = layer.Norm("norm2", mid, "post_attention_layernorm", spec.norm);
  AddMlp(layer, spec, norm2, mid);
  AddLayer(model, std::move(layer));
}

ModelGraph BuildQwen3(const HubConfig& file, const GraphOptions& options) {
  const HubConfig config = file.WithDefaults({{"num_key_value_heads", 32},
                                              {"head_dim", 128},
                                              {"max_position_embeddings", 32768},
                                              {"sliding_window", 4096}});
  const DecoderSpec spec = ReadDecoderSpec(config);
  ModelBuilder model(spec.architecture, options);
  AddEmbedding(model, spec);
  for (int64_t i = 0; i < spec.layers; ++i) AddQwen3Layer(model, spec, config, "model.layers.", i);
  return FinishDecoder(model, spec);
}

}  // namespace lazytrain
