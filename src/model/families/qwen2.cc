// Qwen2 and Qwen2.5 (Yang et al. 2024): biases on query, key and value; a sliding window in the
// upper layers where the configuration turns it on.
#include "model/families/decoder.h"

namespace lazytrain {

void AddQwen2Layers(ModelBuilder& model, const DecoderSpec& spec, const HubConfig& config,
                    const std::string& prefix) {
  const RopeFrequencies rope = ReadRopeFrequencies(config, spec.heads.dim);
  const std::vector<int64_t> windows = ReadQwenWindows(config, spec.layers);
  for (int64_t i = 0; i < spec.layers; ++i) {
    SegmentBuilder layer = MakeLayer(model, i, prefix);
    const int x = layer.graph().LiveIn("x", spec.hidden);
    const int norm1 = layer.Norm("norm1", x, "input_layernorm", spec.norm);
    const int qkv = AddQkv(layer, spec, norm1, /*bias=*/true);
    AddRope(layer, spec.heads, rope, qkv);
    const int attn = AddAttention(layer, spec.heads, qkv, windows[static_cast<size_t>(i)]);
    const int mid = layer.Project({"o", "mid", {{"self_attn.o_proj", spec.hidden}}}, attn, x);
    const int norm2 = layer.Norm("norm2", mid, "post_attention_layernorm", spec.norm);
    AddMlp(layer, spec, norm2, mid);
    AddLayer(model, std::move(layer));
  }
}

ModelGraph BuildQwen2(const HubConfig& file, const GraphOptions& options) {
  const HubConfig config = file.WithDefaults(
      {{"num_key_value_heads", 32}, {"max_position_embeddings", 32768}, {"sliding_window", 4096}});
  const DecoderSpec spec = ReadDecoderSpec(config);
  ModelBuilder model(spec.architecture, options);
  AddEmbedding(model, spec);
  AddQwen2Layers(model, spec, config, "model.layers.");
  return FinishDecoder(model, spec);
}

}  // namespace lazytrain
