#include "model/families/decoder.h"

#include <fmt/core.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/error.h"
#include "ops/attention.h"
#include "ops/embedding.h"
#include "ops/gather_rows.h"
#include "ops/linear.h"
#include "ops/lm_head_loss.h"
#include "ops/rms_norm.h"
#include "ops/rope.h"
#include "ops/swiglu.h"

namespace lazytrain {
namespace {

ParameterSpec Matrix(std::string name, DType dtype, int64_t cols,
                     const std::vector<std::pair<std::string, int64_t>>& hub_rows) {
  ParameterSpec parameter;
  parameter.name = std::move(name);
  parameter.cols = cols;
  parameter.dtype = dtype;
  parameter.decays = true;
  for (const auto& [hub_name, rows] : hub_rows) {
    parameter.tensors.push_back({hub_name, {rows, cols}, parameter.rows * cols});
    parameter.rows += rows;
  }
  return parameter;
}

ParameterSpec Vector(std::string name, DType dtype, Init init,
                     const std::vector<std::pair<std::string, int64_t>>& hub_sizes) {
  ParameterSpec parameter;
  parameter.name = std::move(name);
  parameter.rows = 1;
  parameter.dtype = dtype;
  parameter.init = init;
  for (const auto& [hub_name, size] : hub_sizes) {
    parameter.tensors.push_back({hub_name, {size}, parameter.cols});
    parameter.cols += size;
  }
  return parameter;
}

// Positions of a layer unit's parameters; -1 where the model has none.
struct LayerWeights {
  int input_norm = -1, qkv = -1, qkv_bias = -1, o = -1, o_bias = -1;
  int post_norm = -1, gate_up = -1, gate_up_bias = -1, down = -1, down_bias = -1;
};

struct LayerUnit {
  UnitSpec unit;
  LayerWeights weights;
};

LayerUnit MakeLayerUnit(const DecoderSpec& spec, DType dtype, int64_t layer) {
  LayerUnit made;
  made.unit.name = fmt::format("layers.{}", layer);
  const std::string prefix = fmt::format("model.layers.{}.", layer);
  const int64_t q = spec.q_heads * spec.head_dim;
  const int64_t kv = spec.kv_heads * spec.head_dim;
  const std::string attn = prefix + "self_attn.";
  const std::string mlp = prefix + "mlp.";
  UnitSpec& unit = made.unit;
  LayerWeights& at = made.weights;
  at.input_norm = unit.Add(
      Vector("input_norm", dtype, Init::kOnes, {{prefix + "input_layernorm.weight", spec.hidden}}));
  at.qkv = unit.Add(Matrix(
      "qkv", dtype, spec.hidden,
      {{attn + "q_proj.weight", q}, {attn + "k_proj.weight", kv}, {attn + "v_proj.weight", kv}}));
  if (spec.qkv_bias) {
    at.qkv_bias = unit.Add(Vector(
        "qkv.bias", dtype, Init::kZeros,
        {{attn + "q_proj.bias", q}, {attn + "k_proj.bias", kv}, {attn + "v_proj.bias", kv}}));
  }
  at.o = unit.Add(Matrix("o", dtype, q, {{attn + "o_proj.weight", spec.hidden}}));
  if (spec.o_bias) {
    at.o_bias =
        unit.Add(Vector("o.bias", dtype, Init::kZeros, {{attn + "o_proj.bias", spec.hidden}}));
  }
  at.post_norm = unit.Add(Vector("post_norm", dtype, Init::kOnes,
                                 {{prefix + "post_attention_layernorm.weight", spec.hidden}}));
  at.gate_up = unit.Add(Matrix("gate_up", dtype, spec.hidden,
                               {{mlp + "gate_proj.weight", spec.intermediate},
                                {mlp + "up_proj.weight", spec.intermediate}}));
  if (spec.mlp_bias) {
    at.gate_up_bias = unit.Add(Vector(
        "gate_up.bias", dtype, Init::kZeros,
        {{mlp + "gate_proj.bias", spec.intermediate}, {mlp + "up_proj.bias", spec.intermediate}}));
  }
  at.down =
      unit.Add(Matrix("down", dtype, spec.intermediate, {{mlp + "down_proj.weight", spec.hidden}}));
  if (spec.mlp_bias) {
    at.down_bias =
        unit.Add(Vector("down.bias", dtype, Init::kZeros, {{mlp + "down_proj.bias", spec.hidden}}));
  }
  return made;
}

std::shared_ptr<RmsNorm> MakeNorm(const DecoderSpec& spec, DType dtype, Extent extent) {
  auto norm = std::make_shared<RmsNorm>();
  norm->hidden = spec.hidden;
  norm->eps = spec.norm_eps;
  norm->dtype = dtype;
  norm->extent = extent;
  return norm;
}

std::shared_ptr<Linear> MakeLinear(DType dtype, int64_t in_features, int64_t out_features,
                                   bool bias, bool residual) {
  auto linear = std::make_shared<Linear>();
  linear->in_features = in_features;
  linear->out_features = out_features;
  linear->has_bias = bias;
  linear->has_residual = residual;
  linear->dtype = dtype;
  linear->output_dtype = dtype;
  return linear;
}

std::vector<WeightRef> Refs(int weight, int bias) {
  std::vector<WeightRef> refs = {{0, weight}};
  if (bias >= 0) refs.push_back({0, bias});
  return refs;
}

// x -> norm -> qkv -> rope -> attention -> o + x = mid
int AddAttention(GraphBuilder& graph, const DecoderSpec& spec, const LayerWeights& at,
                 int64_t window, int x) {
  const DType dtype = graph.dtype();
  const int64_t q = spec.q_heads * spec.head_dim;
  const int64_t qkv_cols = (spec.q_heads + 2 * spec.kv_heads) * spec.head_dim;
  const int norm = graph.Value("norm1", spec.hidden);
  graph.Add("norm1", MakeNorm(spec, dtype, Extent::kTokens), {x}, {norm}, {{0, at.input_norm}});
  const int qkv = graph.Value("qkv", qkv_cols);
  graph.Add("qkv_proj", MakeLinear(dtype, spec.hidden, qkv_cols, spec.qkv_bias, false), {norm},
            {qkv}, Refs(at.qkv, at.qkv_bias));
  auto rope = std::make_shared<Rope>();
  rope->q_heads = spec.q_heads;
  rope->kv_heads = spec.kv_heads;
  rope->head_dim = spec.head_dim;
  rope->inverse_frequencies = spec.rope.inverse;
  rope->scaling = spec.rope.scaling;
  rope->dtype = dtype;
  graph.Add("rope", rope, {qkv, graph.Batch("positions", DType::kI32)}, {qkv});
  auto attention = std::make_shared<Attention>();
  attention->q_heads = spec.q_heads;
  attention->kv_heads = spec.kv_heads;
  attention->head_dim = spec.head_dim;
  attention->scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(spec.head_dim)));
  attention->window = window;
  attention->dtype = dtype;
  const int attn = graph.Value("attn", q);
  const int lse = graph.Value("lse", DType::kF32, Extent::kTokens, spec.q_heads, "attn");
  graph.Add("attention", attention, {qkv}, {attn, lse});
  const int mid = graph.Value("mid", spec.hidden);
  graph.Add("o_proj", MakeLinear(dtype, q, spec.hidden, spec.o_bias, true), {attn, x}, {mid},
            Refs(at.o, at.o_bias));
  return mid;
}

// mid -> norm -> gate_up -> swiglu -> down + mid = out
void AddMlp(GraphBuilder& graph, const DecoderSpec& spec, const LayerWeights& at, int mid) {
  const DType dtype = graph.dtype();
  const int norm = graph.Value("norm2", spec.hidden);
  graph.Add("norm2", MakeNorm(spec, dtype, Extent::kTokens), {mid}, {norm}, {{0, at.post_norm}});
  const int gate_up = graph.Value("gate_up", 2 * spec.intermediate);
  graph.Add("gate_up_proj",
            MakeLinear(dtype, spec.hidden, 2 * spec.intermediate, spec.mlp_bias, false), {norm},
            {gate_up}, Refs(at.gate_up, at.gate_up_bias));
  auto swiglu = std::make_shared<Swiglu>();
  swiglu->intermediate = spec.intermediate;
  swiglu->dtype = dtype;
  const int act = graph.Value("act", spec.intermediate);
  graph.Add("swiglu", swiglu, {gate_up}, {act});
  const int out = graph.Value("out", spec.hidden);
  graph.Add("down_proj", MakeLinear(dtype, spec.intermediate, spec.hidden, spec.mlp_bias, true),
            {act, mid}, {out}, Refs(at.down, at.down_bias));
}

std::shared_ptr<const SegmentGraph> MakeEmbedding(const DecoderSpec& spec, DType dtype) {
  GraphBuilder graph("embedding", dtype);
  auto embedding = std::make_shared<Embedding>();
  embedding->vocab_size = spec.vocab_size;
  embedding->hidden = spec.hidden;
  embedding->dtype = dtype;
  const int ids = graph.Batch("input_ids", DType::kI32);
  const int out = graph.Value("out", spec.hidden);
  graph.Add("embedding", embedding, {ids}, {out}, {{0, 0}});
  return graph.Finish();
}

std::shared_ptr<const SegmentGraph> MakeLossHead(const DecoderSpec& spec, DType dtype,
                                                 int64_t chunk_rows, WeightRef head) {
  GraphBuilder graph("loss_head", dtype);
  const int x = graph.LiveIn("x", spec.hidden);
  const int norm = graph.Value("norm", spec.hidden);
  graph.Add("final_norm", MakeNorm(spec, dtype, Extent::kTokens), {x}, {norm}, {{0, 0}});
  auto loss = std::make_shared<LmHeadLoss>();
  loss->vocab_size = spec.vocab_size;
  loss->hidden = spec.hidden;
  loss->chunk_rows = chunk_rows;
  loss->dtype = dtype;
  const int targets = graph.Batch("targets", DType::kI32);
  const int weights = graph.Batch("loss_weights", DType::kF32);
  const int token_loss = graph.Value("token_loss", DType::kF32, Extent::kTokens, 1);
  graph.Add("lm_head_loss", loss, {norm, targets, weights}, {token_loss}, {head});
  return graph.Finish();
}

std::shared_ptr<const SegmentGraph> MakeLogitsHead(const DecoderSpec& spec, DType dtype,
                                                   WeightRef head) {
  GraphBuilder graph("logits_head", dtype);
  const int x = graph.LiveIn("x", spec.hidden);
  auto gather = std::make_shared<GatherRows>();
  gather->hidden = spec.hidden;
  gather->dtype = dtype;
  const int rows = graph.Batch("selected_rows", DType::kI32, Extent::kSelected);
  const int chosen = graph.Value("chosen", dtype, Extent::kSelected, spec.hidden);
  graph.Add("choose", gather, {x, rows}, {chosen});
  const int norm = graph.Value("norm", dtype, Extent::kSelected, spec.hidden);
  graph.Add("final_norm", MakeNorm(spec, dtype, Extent::kSelected), {chosen}, {norm}, {{0, 0}});
  auto linear = MakeLinear(dtype, spec.hidden, spec.vocab_size, false, false);
  linear->extent = Extent::kSelected;
  linear->output_dtype = DType::kF32;
  const int logits = graph.Value("logits", DType::kF32, Extent::kSelected, spec.vocab_size);
  graph.Add("lm_head", linear, {norm}, {logits}, {head});
  return graph.Finish();
}

// Embedding and layers: what both chains begin with.
SegmentChain MakeBody(const DecoderSpec& spec, DType dtype, ModelGraph& model) {
  UnitSpec embedding{"embedding", {}, 0, 0};
  embedding.Add(
      Matrix("table", dtype, spec.hidden, {{"model.embed_tokens.weight", spec.vocab_size}}));
  model.units.push_back(std::move(embedding));
  SegmentChain body = {{"embedding", MakeEmbedding(spec, dtype), {0}, {}}};
  std::map<int64_t, std::shared_ptr<const SegmentGraph>> graph_of_window;
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    LayerUnit made = MakeLayerUnit(spec, dtype, layer);
    const int64_t window = spec.windows.empty() ? 0 : spec.windows[layer];
    auto& graph = graph_of_window[window];
    if (graph == nullptr) {
      GraphBuilder builder("layer", dtype);
      const int x = builder.LiveIn("x", spec.hidden);
      AddMlp(builder, spec, made.weights, AddAttention(builder, spec, made.weights, window, x));
      graph = builder.Finish();
    }
    const Segment& before = body.back();
    const ValueSource x{static_cast<int>(body.size()) - 1, before.graph->FindValue("out")};
    body.push_back({made.unit.name, graph, {static_cast<int>(model.units.size())}, {x}});
    model.units.push_back(std::move(made.unit));
  }
  return body;
}

// No model comes near these; beyond them numbers are damaged, and sizes would leave 64 bits.
void CheckSize(const DecoderSpec& spec, const HubConfig& config) {
  constexpr int64_t kLayers = 1024;
  constexpr int64_t kHeadDim = 65536;
  constexpr double kParameters = 1e15;
  if (spec.layers > kLayers || spec.head_dim > kHeadDim) {
    throw RunError("{}: {} layers with a head_dim of {}; at most {} and {} are supported",
                   config.place(), spec.layers, spec.head_dim, kLayers, kHeadDim);
  }
  const auto hidden = static_cast<double>(spec.hidden);
  const double attention =
      2.0 * static_cast<double>(spec.q_heads + spec.kv_heads) * static_cast<double>(spec.head_dim);
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

}  // namespace

DecoderSpec ReadDecoderSpec(const HubConfig& config) {
  DecoderSpec spec;
  spec.architecture = config.String("model_type");
  spec.vocab_size = config.PositiveInt("vocab_size");
  spec.hidden = config.PositiveInt("hidden_size");
  spec.intermediate = config.PositiveInt("intermediate_size");
  spec.layers = config.PositiveInt("num_hidden_layers");
  spec.q_heads = config.PositiveInt("num_attention_heads");
  spec.kv_heads = config.PositiveIntOr("num_key_value_heads", spec.q_heads);
  if (!config.Has("head_dim") && spec.hidden % spec.q_heads != 0) {
    throw RunError("{}: 'hidden_size' {} is not a multiple of 'num_attention_heads' {}",
                   config.place(), spec.hidden, spec.q_heads);
  }
  spec.head_dim = config.PositiveIntOr("head_dim", spec.hidden / spec.q_heads);
  if (spec.q_heads % spec.kv_heads != 0) {
    throw RunError("{}: 'num_attention_heads' {} is not a multiple of 'num_key_value_heads' {}",
                   config.place(), spec.q_heads, spec.kv_heads);
  }
  if (spec.head_dim % 2 != 0) {
    throw RunError("{}: 'head_dim' is {}; rotary embeddings need an even number", config.place(),
                   spec.head_dim);
  }
  if (const std::string act = config.StringOr("hidden_act", "silu"); act != "silu") {
    throw RunError("{}: the activation '{}' is not supported in this architecture; silu is",
                   config.place(), act);
  }
  spec.max_positions = config.PositiveIntOr("max_position_embeddings", 2048);
  CheckSize(spec, config);
  spec.norm_eps = static_cast<float>(config.NumberOr("rms_norm_eps", 1e-6));
  if (!(spec.norm_eps >= 0.0f)) {
    throw RunError("{}: 'rms_norm_eps' is {}; it cannot be negative", config.place(),
                   spec.norm_eps);
  }
  spec.tied_head = config.BoolOr("tie_word_embeddings", false);
  spec.rope = ReadRopeFrequencies(config, spec.head_dim);
  return spec;
}

ModelGraph BuildDecoder(const DecoderSpec& spec, const GraphOptions& options) {
  ModelGraph model;
  model.architecture = spec.architecture;
  model.vocab_size = spec.vocab_size;
  model.max_positions = spec.max_positions;
  model.dtype = options.dtype;
  const SegmentChain body = MakeBody(spec, options.dtype, model);

  UnitSpec head{"head", {}, 0, 0};
  head.Add(Vector("norm", options.dtype, Init::kOnes, {{"model.norm.weight", spec.hidden}}));
  std::vector<int> head_units = {static_cast<int>(model.units.size())};
  WeightRef projection;
  if (spec.tied_head) {
    head_units.push_back(0);
    projection = {1, 0};
  } else {
    projection = {0, head.Add(Matrix("projection", options.dtype, spec.hidden,
                                     {{"lm_head.weight", spec.vocab_size}}))};
  }
  model.units.push_back(std::move(head));

  const ValueSource x{static_cast<int>(body.size()) - 1, body.back().graph->FindValue("out")};
  model.loss = body;
  model.loss.push_back({"head",
                        MakeLossHead(spec, options.dtype, options.head_chunk_rows, projection),
                        head_units,
                        {x}});
  model.logits = body;
  model.logits.push_back(
      {"head", MakeLogitsHead(spec, options.dtype, projection), head_units, {x}});
  return model;
}

}  // namespace lazytrain
