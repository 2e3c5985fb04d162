// InternLM 2 and 2.5 (Cai et al. 2024): Llama's architecture; query, key and value heads are stored
// in groups, one for each key head.
#include <memory>

#include "model/families/decoder.h"
#include "ops/regroup_heads.h"

namespace lazytrain {
namespace {

// From groups to all queries, all keys, all values; writes "qkv".
int AddRegroupHeads(SegmentBuilder& layer, const Heads& heads, int x) {
  auto op = std::make_shared<RegroupHeads>();
  op->q_heads = heads.q;
  op->kv_heads = heads.kv;
  op->head_dim = heads.dim;
  op->dtype = layer.dtype();
  const int qkv = layer.graph().Value("qkv", heads.cols());
  layer.graph().Add("regroup_heads", op, {x}, {qkv});
  return qkv;
}

}  // namespace

void AddInternLm2Layers(ModelBuilder& model, const DecoderSpec& spec, const HubConfig& config,
                        const std::string& prefix) {
  const RopeFrequencies rope = ReadRopeFrequencies(config, spec.heads.dim);
  const bool bias = config.BoolOr("bias", true);
  for (int64_t i = 0; i < spec.layers; ++i) {
    SegmentBuilder layer = MakeLayer(model, i, prefix);
    const int x = layer.graph().LiveIn("x", spec.hidden);
    const int norm1 = layer.Norm("norm1", x, "attention_norm", spec.norm);
    const int wqkv =
        layer.Project({"qkv", "qkv_in", {{"attention.wqkv", spec.heads.cols()}}, bias}, norm1);
    const int qkv = AddRegroupHeads(layer, spec.heads, wqkv);
    AddRope(layer, spec.heads, rope, qkv);
    const int attn = AddAttention(layer, spec.heads, qkv);
    const int mid = layer.Project({"o", "mid", {{"attention.wo", spec.hidden}}, bias}, attn, x);
    const int norm2 = layer.Norm("norm2", mid, "ffn_norm", spec.norm);
    const int gate_up = layer.Project(
        {"gate_up",
         "gate_up",
         {{"feed_forward.w1", spec.intermediate}, {"feed_forward.w3", spec.intermediate}}},
        norm2);
    layer.Project({"down", "out", {{"feed_forward.w2", spec.hidden}}}, AddSwiglu(layer, gate_up),
                  mid);
    AddLayer(model, std::move(layer));
  }
}

ModelGraph BuildInternLm2(const HubConfig& config, const GraphOptions& options) {
  const DecoderSpec spec = ReadDecoderSpec(config);
  ModelBuilder model(spec.architecture, options);
  AddEmbedding(model, spec, "model.tok_embeddings");
  AddInternLm2Layers(model, spec, config, "model.layers.");
  return FinishDecoder(model, spec, {"model.norm", "output"});
}

}  // namespace lazytrain
