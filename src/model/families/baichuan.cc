// Baichuan 1 and 2 (Yang et al. 2023): Llama's architecture with a fused W_pack projection. The
// second generation scales the rows of its output projection to length 1; the 13B models have
// linear biases (ALiBi, Press et al. 2022) instead of rotary embeddings.
#include <bit>
#include <cmath>

#include "model/families/decoder.h"

namespace lazytrain {
namespace {

// The first generation's; config.json has no other mark of it.
constexpr int64_t kFirstVocabulary = 64000;

// Slopes of linear biases for `heads` heads, a power of two: 2^(-8/heads), its square, its cube,
// ... of which every `step`-th is taken.
void AppendSlopes(int64_t heads, int64_t step, int64_t count, std::vector<float>& slopes) {
  for (int64_t i = 0; i < count; ++i) {
    const double exponent = -8.0 * static_cast<double>(1 + i * step) / static_cast<double>(heads);
    slopes.push_back(static_cast<float>(std::exp2(exponent)));
  }
}

// Press et al.'s rule for any number of heads: those of the power of two below it, then every
// second one of the power above.
std::vector<float> LinearBiasSlopes(int64_t heads) {
  const auto below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  std::vector<float> slopes;
  AppendSlopes(below, 1, below, slopes);
  AppendSlopes(2 * below, 2, heads - below, slopes);
  return slopes;
}

}  // namespace

ModelGraph BuildBaichuan(const HubConfig& config, const GraphOptions& options) {
  DecoderSpec spec = ReadDecoderSpec(config);
  // Only the 7B models, which have rotary embeddings, name the positions they were made for.
  const bool rotary = config.Has("max_position_embeddings");
  if (!rotary) spec.max_positions = config.PositiveIntOr("model_max_length", 4096);
  const RopeFrequencies rope = ReadRopeFrequencies(config, spec.heads.dim);
  const std::vector<float> slopes = rotary ? std::vector<float>() : LinearBiasSlopes(spec.heads.q);

  ModelBuilder model(spec.architecture, options);
  AddEmbedding(model, spec);
  for (int64_t i = 0; i < spec.layers; ++i) {
    SegmentBuilder layer = MakeLayer(model, i);
    const int x = layer.graph().LiveIn("x", spec.hidden);
    const int norm1 = layer.Norm("norm1", x, "input_layernorm", spec.norm);
    const int qkv = layer.Project({"qkv", "qkv", {{"self_attn.W_pack", spec.heads.cols()}}}, norm1);
    if (rotary) AddRope(layer, spec.heads, rope, qkv);
    const int attn = AddAttention(layer, spec.heads, qkv, /*window=*/0, slopes);
    const int mid = layer.Project({"o", "mid", {{"self_attn.o_proj", spec.hidden}}}, attn, x);
    const int norm2 = layer.Norm("norm2", mid, "post_attention_layernorm", spec.norm);
    AddMlp(layer, spec, norm2, mid);
    AddLayer(model, std::move(layer));
  }
  HeadSpec head;
  head.kind = spec.vocab_size == kFirstVocabulary ? HeadKind::kPlain : HeadKind::kNormalized;
  return FinishDecoder(model, spec, head);
}

}  // namespace lazytrain
