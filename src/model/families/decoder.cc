#include "model/families/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "ops/attention.h"
#include "ops/embedding.h"
#include "ops/gather_rows.h"
#include "ops/linear.h"
#include "ops/lm_head_loss.h"
#include "ops/normalized_head.h"
#include "ops/planned_op.h"
#include "ops/qk_norm.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/soft_capped_lm_head_loss.h"
#include "ops/swiglu.h"

namespace lazytrain {
namespace {

Heads ReadHeads(const HubConfig& config, int64_t hidden) {
  Heads heads;
  heads.q = config.PositiveInt("num_attention_heads");
  heads.kv = config.PositiveIntOr("num_key_value_heads", heads.q);
  if (!config.Has("head_dim") && hidden % heads.q != 0) {
    throw RunError("{}: 'hidden_size' {} is not a multiple of 'num_attention_heads' {}",
                   config.place(), hidden, heads.q);
  }
  heads.dim = config.PositiveIntOr("head_dim", hidden / heads.q);
  if (heads.q % heads.kv != 0) {
    throw RunError("{}: 'num_attention_heads' {} is not a multiple of 'num_key_value_heads' {}",
                   config.place(), heads.q, heads.kv);
  }
  if (heads.dim % 2 != 0) {
    throw RunError("{}: 'head_dim' is {}; rotary embeddings need an even number", config.place(),
                   heads.dim);
  }
  return heads;
}

std::shared_ptr<RmsNorm> FinalNorm(const DecoderSpec& spec, DType dtype, Extent extent) {
  auto norm = std::make_shared<RmsNorm>();
  norm->hidden = spec.hidden;
  norm->eps = spec.norm.eps;
  norm->scale_offset = spec.norm.scale_offset;
  norm->dtype = dtype;
  norm->extent = extent;
  return norm;
}

// Output projection and loss.
std::shared_ptr<const Op> LossOp(const DecoderSpec& spec, const GraphOptions& options,
                                 HeadKind kind) {
  LmHeadLoss plain;
  plain.vocab_size = spec.vocab_size;
  plain.hidden = spec.hidden;
  plain.chunk_rows = options.head_chunk_rows;
  plain.dtype = options.dtype;
  if (kind == HeadKind::kPlain) return std::make_shared<LmHeadLoss>(plain);
  if (kind == HeadKind::kNormalized) {
    auto op = std::make_shared<NormalizedLmHeadLoss>();
    op->loss = plain;
    return op;
  }
  auto op = std::make_shared<SoftCappedLmHeadLoss>();
  op->loss = plain;
  return op;
}

// Output projection alone.
std::shared_ptr<const Op> LogitsOp(const DecoderSpec& spec, DType dtype, HeadKind kind) {
  Linear plain;
  plain.in_features = spec.hidden;
  plain.out_features = spec.vocab_size;
  plain.dtype = dtype;
  plain.output_dtype = DType::kF32;
  plain.extent = Extent::kSelected;
  if (kind == HeadKind::kPlain) return std::make_shared<Linear>(plain);
  if (kind == HeadKind::kNormalized) {
    auto op = std::make_shared<NormalizedLinear>();
    op->linear = plain;
    return op;
  }
  auto op = std::make_shared<PlannedOp>();
  op->name = "soft_capped_linear";
  op->attributes = plain.Signature();
  op->extent = Extent::kSelected;
  op->flops = 2.0 * static_cast<double>(spec.hidden) * static_cast<double>(spec.vocab_size);
  op->bytes = static_cast<double>(spec.vocab_size) * 4.0;
  op->needs = {{0}, {0}, true};
  return op;
}

std::shared_ptr<const SegmentGraph> MakeLossHead(const DecoderSpec& spec,
                                                 const GraphOptions& options, HeadKind kind,
                                                 WeightRef head) {
  GraphBuilder graph("loss_head", options.dtype);
  const int x = graph.LiveIn("x", spec.hidden);
  const int norm = graph.Value("norm", spec.hidden);
  graph.Add("final_norm", FinalNorm(spec, options.dtype, Extent::kTokens), {x}, {norm}, {{0, 0}});
  const int targets = graph.Batch("targets", DType::kI32);
  const int weights = graph.Batch("loss_weights", DType::kF32);
  const int token_loss = graph.Value("token_loss", DType::kF32, Extent::kTokens, 1);
  graph.Add("lm_head_loss", LossOp(spec, options, kind), {norm, targets, weights}, {token_loss},
            {head});
  return graph.Finish();
}

std::shared_ptr<const SegmentGraph> MakeLogitsHead(const DecoderSpec& spec,
                                                   const GraphOptions& options, HeadKind kind,
                                                   WeightRef head) {
  const DType dtype = options.dtype;
  GraphBuilder graph("logits_head", dtype);
  const int x = graph.LiveIn("x", spec.hidden);
  auto gather = std::make_shared<GatherRows>();
  gather->hidden = spec.hidden;
  gather->dtype = dtype;
  const int rows = graph.Batch("selected_rows", DType::kI32, Extent::kSelected);
  const int chosen = graph.Value("chosen", dtype, Extent::kSelected, spec.hidden);
  graph.Add("choose", gather, {x, rows}, {chosen});
  const int norm = graph.Value("norm", dtype, Extent::kSelected, spec.hidden);
  graph.Add("final_norm", FinalNorm(spec, dtype, Extent::kSelected), {chosen}, {norm}, {{0, 0}});
  const int logits = graph.Value("logits", DType::kF32, Extent::kSelected, spec.vocab_size);
  graph.Add("lm_head", LogitsOp(spec, dtype, kind), {norm}, {logits}, {head});
  return graph.Finish();
}

}  // namespace

DecoderSpec ReadDecoderSpec(const HubConfig& config) {
  DecoderSpec spec;
  spec.architecture = config.String("model_type");
  spec.vocab_size = config.PositiveInt("vocab_size");
  spec.hidden = config.PositiveInt("hidden_size");
  spec.intermediate = config.PositiveInt("intermediate_size");
  spec.layers = config.PositiveInt("num_hidden_layers");
  spec.heads = ReadHeads(config, spec.hidden);
  RequireOneOf(config, "hidden_act", {"silu", "swish"});
  for (const char* key : {"attention_dropout", "resid_pdrop", "embd_pdrop"}) {
    if (config.NumberOr(key, 0.0) != 0.0) {
      Note("{}: '{}' is {}; this program trains without dropout", config.place(), key,
           config.Number(key));
    }
  }
  spec.max_positions = ContextTokens(config);
  CheckSizes(spec, config);
  spec.norm.eps = static_cast<float>(config.NumberOr("rms_norm_eps", 1e-6));
  if (!(spec.norm.eps >= 0.0f)) {
    throw RunError("{}: 'rms_norm_eps' is {}; it cannot be negative", config.place(),
                   spec.norm.eps);
  }
  spec.tied_head = config.BoolOr("tie_word_embeddings", false);
  return spec;
}

void CheckSizes(const DecoderSpec& spec, const HubConfig& config) {
  // No model comes near these; beyond them numbers are damaged, and sizes would leave 64 bits.
  constexpr int64_t kLayers = 1024;
  constexpr int64_t kHeadDim = 65536;
  constexpr double kParameters = 1e15;
  if (spec.layers > kLayers || spec.heads.dim > kHeadDim) {
    throw RunError("{}: {} layers with a head_dim of {}; at most {} and {} are supported",
                   config.place(), spec.layers, spec.heads.dim, kLayers, kHeadDim);
  }
  const auto hidden = static_cast<double>(spec.hidden);
  const double attention =
      2.0 * static_cast<double>(spec.heads.q + spec.heads.kv) * static_cast<double>(spec.heads.dim);
  const double layer = hidden * (attention + 3.0 * static_cast<double>(spec.intermediate));
  const double parameters = 2.0 * hidden * static_cast<double>(spec.vocab_size) +
                            static_cast<double>(spec.layers) * layer;
  if (parameters > kParameters) {
    throw RunError(
        "{}: describes a model of {:.1e} parameters; correct hidden_size, intermediate_size, "
        "vocab_size or the numbers of heads",
        config.place(), parameters);
  }
}

void RequireOneOf(const HubConfig& config, const std::string& key,
                  const std::vector<std::string>& supported) {
  if (!config.Has(key)) return;
  const std::string value = config.String(key);
  if (std::find(supported.begin(), supported.end(), value) != supported.end()) return;
  throw RunError("{}: '{}' is '{}', which this architecture does not support here; it has to be {}",
                 config.place(), key, value, fmt::join(supported, " or "));
}

std::vector<std::string> ReadLayerTypes(const HubConfig& config, int64_t layers,
                                        const std::vector<std::string>& supported) {
  if (!config.Has("layer_types")) return {};
  const Json& types = config.json().at("layer_types");
  if (!types.is_array() || static_cast<int64_t>(types.size()) != layers) {
    throw RunError("{}: 'layer_types' has to list one type for each of {} layers", config.place(),
                   layers);
  }
  std::vector<std::string> result;
  for (const Json& type : types) {
    result.push_back(type.is_string() ? type.get<std::string>() : type.dump());
    if (std::find(supported.begin(), supported.end(), result.back()) == supported.end()) {
      throw RunError("{}: 'layer_types' holds '{}'; this architecture has {}", config.place(),
                     result.back(), fmt::join(supported, ", "));
    }
  }
  return result;
}

std::vector<int64_t> ReadQwenWindows(const HubConfig& config, int64_t layers) {
  std::vector<int64_t> windows(static_cast<size_t>(layers), 0);
  const std::vector<std::string> types = ReadLayerTypes(config, layers);
  if (!config.BoolOr("use_sliding_window", false) || !config.Has("sliding_window")) return windows;
  const int64_t window = config.PositiveInt("sliding_window");
  // May be 0, which PositiveInt refuses: then every layer has the window.
  const int64_t first = config.Has("max_window_layers") ? config.Int("max_window_layers") : 28;
  for (int64_t i = 0; i < layers; ++i) {
    const auto at = static_cast<size_t>(i);
    if (types.empty() ? i >= first : types[at] == "sliding_attention") windows[at] = window;
  }
  return windows;
}

void AddEmbedding(ModelBuilder& model, const DecoderSpec& spec, const std::string& tensor,
                  double scale) {
  SegmentBuilder segment("embedding", "embedding", "", model.options().dtype);
  auto embedding = std::make_shared<Embedding>();
  embedding->vocab_size = spec.vocab_size;
  embedding->hidden = spec.hidden;
  embedding->dtype = segment.dtype();
  const int ids = segment.graph().Batch("input_ids", DType::kI32);
  const int rows = segment.graph().Value(scale == 1.0 ? "out" : "rows", spec.hidden);
  const WeightRef table =
      segment.Matrix("table", spec.hidden, {{tensor + ".weight", spec.vocab_size}});
  segment.graph().Add("embedding", embedding, {ids}, {rows}, {table});
  if (scale != 1.0) {
    auto op = std::make_shared<PlannedOp>();
    op->name = "scale";
    op->attributes = fmt::format("{},{:a}", spec.hidden, scale);
    op->flops = static_cast<double>(spec.hidden);
    op->bytes = 2.0 * static_cast<double>(spec.hidden * SizeOf(segment.dtype()));
    op->backward_ratio = 1;
    op->needs = {{}, {}, false};
    segment.graph().Add("scale", op, {rows}, {segment.graph().Value("out", spec.hidden)});
  }
  model.Add(std::move(segment));
}

SegmentBuilder MakeLayer(const ModelBuilder& model, int64_t index, const std::string& prefix) {
  return {fmt::format("layers.{}", index), "layer", fmt::format("{}{}.", prefix, index),
          model.options().dtype};
}

int AddQkv(SegmentBuilder& layer, const DecoderSpec& spec, int x, bool bias,
           const std::string& value) {
  return layer.Project({"qkv",
                        value,
                        {{"self_attn.q_proj", spec.heads.q_cols()},
                         {"self_attn.k_proj", spec.heads.kv_cols()},
                         {"self_attn.v_proj", spec.heads.kv_cols()}},
                        bias},
                       x);
}

int AddQkNorm(SegmentBuilder& layer, const DecoderSpec& spec, int x, bool per_head) {
  auto op = std::make_shared<QkNorm>();
  op->q_heads = spec.heads.q;
  op->kv_heads = spec.heads.kv;
  op->head_dim = spec.heads.dim;
  op->per_head = per_head;
  op->eps = spec.norm.eps;
  op->scale_offset = spec.norm.scale_offset;
  op->dtype = layer.dtype();
  const Init init = op->scale_offset == 0.0f ? Init::kOnes : Init::kZeros;
  const WeightRef q = layer.Vector("q_norm", init, {{"self_attn.q_norm.weight", op->group(0)}});
  const WeightRef k = layer.Vector("k_norm", init, {{"self_attn.k_norm.weight", op->group(1)}});
  const int qkv = layer.graph().Value("qkv", layer.cols(x));
  layer.graph().Add("qk_norm", op, {x}, {qkv}, {q, k});
  return qkv;
}

void AddRope(SegmentBuilder& layer, const Heads& heads, const RopeFrequencies& rope, int qkv,
             bool interleaved) {
  auto op = std::make_shared<Rope>();
  op->q_heads = heads.q;
  op->kv_heads = heads.kv;
  op->head_dim = heads.dim;
  op->inverse_frequencies = rope.inverse;
  op->long_inverse_frequencies = rope.long_inverse;
  op->dynamic_factor = rope.dynamic_factor;
  op->long_beyond = rope.long_beyond;
  op->scaling = rope.scaling;
  op->interleaved = interleaved;
  op->dtype = layer.dtype();
  layer.graph().Add("rope", op, {qkv, layer.graph().Batch("positions", DType::kI32)}, {qkv});
}

int AddAttention(SegmentBuilder& layer, const Heads& heads, int qkv, int64_t window,
                 const std::vector<float>& slopes) {
  auto op = std::make_shared<Attention>();
  op->q_heads = heads.q;
  op->kv_heads = heads.kv;
  op->head_dim = heads.dim;
  op->scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(heads.dim)));
  op->window = window;
  op->slopes = slopes;
  op->dtype = layer.dtype();
  const int attn = layer.graph().Value("attn", heads.q_cols());
  const int lse = layer.graph().Value("lse", DType::kF32, Extent::kTokens, heads.q, "attn");
  layer.graph().Add("attention", op, {qkv}, {attn, lse});
  return attn;
}

int AddSwiglu(SegmentBuilder& layer, int gate_up) {
  auto op = std::make_shared<Swiglu>();
  op->intermediate = layer.cols(gate_up) / 2;
  op->dtype = layer.dtype();
  const int act = layer.graph().Value("act", op->intermediate);
  layer.graph().Add("swiglu", op, {gate_up}, {act});
  return act;
}

void AddMlp(SegmentBuilder& layer, const DecoderSpec& spec, int x, int residual, bool bias) {
  const int gate_up =
      layer.Project({"gate_up",
                     "gate_up",
                     {{"mlp.gate_proj", spec.intermediate}, {"mlp.up_proj", spec.intermediate}},
                     bias},
                    x);
  layer.Project({"down", "out", {{"mlp.down_proj", spec.hidden}}, bias}, AddSwiglu(layer, gate_up),
                residual);
}

void AddLayer(ModelBuilder& model, SegmentBuilder layer) {
  const ValueSource x = model.Last();
  model.Add(std::move(layer), {x});
}

ModelGraph FinishDecoder(ModelBuilder& model, const DecoderSpec& spec, const HeadSpec& head) {
  const GraphOptions& options = model.options();
  const Init init = spec.norm.scale_offset == 0.0f ? Init::kOnes : Init::kZeros;
  UnitSpec unit{"head", {}, 0, 0};
  unit.Add(VectorOf("norm", options.dtype, init, {{head.norm + ".weight", spec.hidden}}));
  WeightRef projection{1, 0};
  if (!spec.tied_head) {
    projection = {0, unit.Add(MatrixOf("projection", options.dtype, spec.hidden,
                                       {{head.projection + ".weight", spec.vocab_size}}))};
  }
  const int tied_unit = spec.tied_head ? model.embedding_unit() : -1;
  return model.Finish(
      std::move(unit), tied_unit, MakeLossHead(spec, options, head.kind, projection),
      MakeLogitsHead(spec, options, head.kind, projection), spec.vocab_size, spec.max_positions);
}

}  // namespace lazytrain
