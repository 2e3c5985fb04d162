// Baichuan 1 and 2 (Yang et al. 2023): Llama's architecture with a fused W_pack projection. The
// second generation scales the rows of its output projection to length 1; the 13B models have
// linear biases (ALiBi, Press et al. 2022) instead of rotary embeddings and cannot be run yet.
#include <memory>

#include "model/families/decoder.h"
#include "ops/planned_op.h"

namespace lazytrain {
namespace {

// The first generation's; config.json has no other mark of it.
constexpr int64_t kFirstVocabulary = 64000;

int AddAlibiAttention(SegmentBuilder& layer, const Heads& heads, int qkv) {
  auto op = std::make_shared<PlannedAttention>();
  op->name = "alibi_attention";
  op->q_heads = heads.q;
  op->kv_heads = heads.kv;
  op->qk_dim = heads.dim;
  op->v_dim = heads.dim;
  op->dtype = layer.dtype();
  const int attn = layer.graph().Value("attn", heads.q_cols());
  const int lse = layer.graph().Value("lse", DType::kF32, Extent::kTokens, heads.q, "attn");
  layer.graph().Add("attention", op, {qkv}, {attn, lse});
  return attn;
}

}  // namespace

ModelGraph BuildBaichuan(const HubConfig& config, const GraphOptions& options) {
  DecoderSpec spec = ReadDecoderSpec(config);
  // Only the 7B models, which have rotary embeddings, name the positions they were made for.
  const bool rotary = config.Has("max_position_embeddings");
  if (!rotary) spec.max_positions = config.PositiveIntOr("model_max_length", 4096);
  const RopeFrequencies rope = ReadRopeFrequencies(config, spec.heads.dim);

  ModelBuilder model(spec.architecture, options);
  AddEmbedding(model, spec);
  for (int64_t i = 0; i < spec.layers; ++i) {
    SegmentBuilder layer = MakeLayer(model, i);
    const int x = layer.graph().LiveIn("x", spec.hidden);
    const int norm1 = layer.Norm("norm1", x, "input_layernorm", spec.norm);
    const int qkv = layer.Project({"qkv", "qkv", {{"self_attn.W_pack", spec.heads.cols()}}}, norm1);
    if (rotary) AddRope(layer, spec.heads, rope, qkv);
    const int attn =
        rotary ? AddAttention(layer, spec.heads, qkv) : AddAlibiAttention(layer, spec.heads, qkv);
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
