// Mistral (Jiang et al. 2023): a sliding window in every layer, unless it is null.
#include "model/families/decoder.h"

namespace lazytrain {

ModelGraph BuildMistral(const HubConfig& file, const GraphOptions& options) {
  const HubConfig config = file.WithDefaults(
      {{"num_key_value_heads", 8}, {"max_position_embeddings", 131072}, {"sliding_window", 4096}});
  const DecoderSpec spec = ReadDecoderSpec(config);
  const RopeFrequencies rope = ReadRopeFrequencies(config, spec.heads.dim);
  const int64_t window = config.PositiveIntOr("sliding_window", 0);

  ModelBuilder model(spec.architecture, options);
  AddEmbedding(model, spec);
  for (int64_t i = 0; i < spec.layers; ++i) {
    SegmentBuilder layer = MakeLayer(model, i);
    const int x = layer.graph().LiveIn("x", spec.hidden);
    const int norm1 = layer.Norm("norm1", x, "input_layernorm", spec.norm);
    const int qkv = AddQkv(layer, spec, norm1, false);
    AddRope(layer, spec.heads, rope, qkv);
    const int attn = AddAttention(layer, spec.heads, qkv, window);
    const int mid = layer.Project({"o", "mid", {{"self_attn.o_proj", spec.hidden}}}, attn, x);
    const int norm2 = layer.Norm("norm2", mid, "post_attention_layernorm", spec.norm);
    AddMlp(layer, spec, norm2, mid);
    AddLayer(model, std::move(layer));
  }
  return FinishDecoder(model, spec);
}

}  // namespace lazytrain
