#include "model/families/planned_blocks.h"

#include <fmt/core.h>

#include <utility>

namespace lazytrain {
namespace {

double D(int64_t value) { return static_cast<double>(value); }

// One of a layer's experts as a weight unit.
UnitSpec ExpertUnit(const SegmentBuilder& layer, const ExpertsSpec& spec, int64_t hidden,
                    int64_t index, int64_t expert) {
  const DType dtype = layer.dtype();
  const int64_t n = spec.intermediate;
  UnitSpec unit{fmt::format("layers.{}.experts.{}", index, expert), {}, 0, 0};
  const auto stacked = [&](const char* name, int64_t rows, int64_t cols) {
    ParameterSpec parameter = MatrixOf(name, dtype, cols, {{spec.prefix + name, rows}});
    HubTensor& tensor = parameter.tensors[0];
    if (spec.transposed) tensor.shape = {cols, rows};
    tensor.entry = expert;
    return parameter;
  };
  const auto stacked_bias = [&](const char* name, int64_t size) {
    ParameterSpec parameter = VectorOf(name, dtype, Init::kZeros, {{spec.prefix + name, size}});
    parameter.tensors[0].entry = expert;
    return parameter;
  };
  if (spec.stacked) {
    unit.Add(stacked("gate_up_proj", 2 * n, hidden));
    unit.Add(stacked("down_proj", hidden, n));
    if (spec.bias) {
      unit.Add(stacked_bias("gate_up_proj_bias", 2 * n));
      unit.Add(stacked_bias("down_proj_bias", hidden));
    }
    return unit;
  }
  const std::string own = fmt::format("{}{}.", spec.prefix, expert);
  unit.Add(MatrixOf("gate_up", dtype, hidden,
                    {{own + spec.gate + ".weight", n}, {own + spec.up + ".weight", n}}));
  unit.Add(MatrixOf("down", dtype, n, {{own + spec.down + ".weight", hidden}}));
  return unit;
}

// Which experts a token goes to and with what weight: [top_k] weights, [top_k] ids.
int AddRoutes(SegmentBuilder& layer, const ExpertsSpec& spec, int x) {
  const int logits = layer.Project(
      {"router", "router_logits", {{spec.router, spec.experts}}, spec.router_bias}, x);
  std::vector<WeightRef> weights;
  if (!spec.score_bias.empty()) {
    weights.push_back(layer.Weight(
        VectorOf("score_bias", DType::kF32, Init::kZeros, {{spec.score_bias, spec.experts}})));
  }
  const int routes = layer.graph().Value("routes", DType::kF32, Extent::kTokens, 2 * spec.top_k);
  layer.graph().Add("expert_routes",
                    Planned(layer, "expert_routes", logits, 5.0 * D(spec.experts), D(spec.experts),
                            {{0}, {0}, false}),
                    {logits}, {routes}, weights);
  return routes;
}

// The shared expert's output plus `residual`; writes "out".
void AddSharedExpert(SegmentBuilder& layer, const ExpertsSpec& spec, int x, int residual) {
  const int64_t n = spec.shared_intermediate;
  const int64_t hidden = layer.cols(x);
  const int gate_up = layer.Project({"shared_gate_up",
                                     "shared_gate_up",
                                     {{spec.shared + spec.gate, n}, {spec.shared + spec.up, n}}},
                                    x);
  const int act = AddActivation(layer, "shared_act", gate_up, spec.activation, true);
  const std::string down = spec.shared + spec.down;
  if (spec.shared_gate.empty()) {
    layer.Project({"shared_down", "out", {{down, hidden}}}, act, residual);
    return;
  }
  const int y = layer.Project({"shared_down", "shared_down", {{down, hidden}}}, act);
  const int gate = layer.Project({"shared_gate", "shared_gate", {{spec.shared_gate, 1}}}, x);
  auto op = Planned(layer, "gated_sum", y, 3.0 * D(hidden), 3.0 * D(hidden), {{0, 1}, {}, false});
  op->residual = 2;
  layer.graph().Add("shared_sum", op, {y, gate, residual}, {layer.graph().Value("out", hidden)});
}

}  // namespace

std::shared_ptr<PlannedOp> Planned(const SegmentBuilder& segment, std::string name, int x,
                                   double flops, double values, BackwardNeeds needs) {
  auto op = std::make_shared<PlannedOp>();
  op->name = std::move(name);
  op->attributes = fmt::format("{}", segment.cols(x));
  op->extent = segment.extent(x);
  op->flops = flops;
  op->bytes = values * D(SizeOf(segment.dtype()));
  op->needs = std::move(needs);
  return op;
}

int AddLayerNorm(SegmentBuilder& segment, const std::string& value, int x,
                 const std::string& tensor) {
  const int64_t cols = segment.cols(x);
  const WeightRef scale = segment.Vector(tensor, Init::kOnes, {{tensor + ".weight", cols}});
  const WeightRef bias = segment.Vector(tensor + ".bias", Init::kZeros, {{tensor + ".bias", cols}});
  const int y = segment.graph().Value(value, segment.dtype(), segment.extent(x), cols);
  segment.graph().Add(
      value, Planned(segment, "layer_norm", x, 7.0 * D(cols), 2.0 * D(cols), {{0}, {}, true}), {x},
      {y}, {scale, bias});
  return y;
}

int AddActivation(SegmentBuilder& segment, const std::string& value, int x, const std::string& kind,
                  bool gated) {
  const int64_t cols = gated ? segment.cols(x) / 2 : segment.cols(x);
  auto op = Planned(segment, gated ? "gated_activation" : "activation", x, 8.0 * D(cols),
                    D(segment.cols(x) + cols), {{0}, {}, false});
  op->attributes += "," + kind;
  const int y = segment.graph().Value(value, segment.dtype(), segment.extent(x), cols);
  segment.graph().Add(value, op, {x}, {y});
  return y;
}

int AddAttentionVariant(SegmentBuilder& segment, const Heads& heads, int qkv,
                        const AttentionVariant& variant) {
  auto op = std::make_shared<PlannedAttention>();
  op->name = variant.name;
  op->extent = segment.extent(qkv);
  op->q_heads = heads.q;
  op->kv_heads = heads.kv;
  op->qk_dim = heads.dim;
  op->v_dim = heads.dim;
  op->window = variant.window;
  op->span = variant.span;
  op->dtype = segment.dtype();
  op->needs.weights = !variant.weights.empty();
  GraphBuilder& graph = segment.graph();
  const int attn = graph.Value("attn", segment.dtype(), op->extent, heads.q_cols());
  const int lse = graph.Value("lse", DType::kF32, op->extent, heads.q, "attn");
  graph.Add("attention", op, {qkv}, {attn, lse}, variant.weights);
  return attn;
}

int AddSigmoidGate(SegmentBuilder& segment, const std::string& value, int x, int gate) {
  const int64_t cols = segment.cols(x);
  const int y = segment.graph().Value(value, segment.dtype(), segment.extent(x), cols);
  segment.graph().Add(
      value, Planned(segment, "sigmoid_gate", x, 5.0 * D(cols), 3.0 * D(cols), {{0, 1}, {}, false}),
      {x, gate}, {y});
  return y;
}

void AddExperts(SegmentBuilder& layer, const ExpertsSpec& spec, int64_t index, int x,
                int residual) {
  const int64_t hidden = layer.cols(x);
  const int64_t n = spec.intermediate;
  const int routes = AddRoutes(layer, spec, x);
  std::vector<WeightRef> gate_ups;
  std::vector<WeightRef> downs;
  for (int64_t expert = 0; expert < spec.experts; ++expert) {
    const int slot = layer.AddUnit(ExpertUnit(layer, spec, hidden, index, expert));
    gate_ups.push_back({slot, 0});
    downs.push_back({slot, 1});
    if (spec.bias) {
      gate_ups.push_back({slot, 2});
      downs.push_back({slot, 3});
    }
  }
  const double rows = D(spec.top_k);
  const int gate_up = layer.graph().Value("gate_up", 2 * spec.top_k * n);
  layer.graph().Add("expert_gate_up",
                    Planned(layer, "expert_linear", x, rows * 4.0 * D(hidden * n),
                            rows * D(hidden + 2 * n), {{0, 1}, {}, true}),
                    {x, routes}, {gate_up}, gate_ups);
  const int act = AddActivation(layer, "act", gate_up, spec.activation, true);
  const bool has_shared = !spec.shared.empty();
  // Products summed with the routes' weights: their gradient reads the products' input.
  auto combine = Planned(layer, "expert_linear_sum", act, rows * 2.0 * D(hidden * (n + 1)),
                         rows * D(n) + 2.0 * D(hidden), {{0, 1}, {}, true});
  combine->residual = 2;
  const int out = layer.graph().Value(has_shared ? "routed" : "out", hidden);
  layer.graph().Add("expert_down", combine, {act, routes, residual}, {out}, downs);
  if (has_shared) AddSharedExpert(layer, spec, x, out);
}

int AddLatentAttention(SegmentBuilder& layer, const LatentAttentionSpec& spec, const NormSpec& norm,
                       int x) {
  GraphBuilder& graph = layer.graph();
  const int64_t q_cols = spec.heads * (spec.nope_dim + spec.rope_dim);
  int q = kNoValue;
  if (spec.q_rank > 0) {
    const int low =
        layer.Project({"q_a", "q_a", {{"self_attn.q_a_proj", spec.q_rank}}, spec.bias}, x);
    const int normed = layer.Norm("q_a_norm", low, "self_attn.q_a_layernorm", norm);
    q = layer.Project({"q_b", "q", {{"self_attn.q_b_proj", q_cols}}}, normed);
  } else {
    q = layer.Project({"q", "q", {{"self_attn.q_proj", q_cols}}}, x);
  }
  // The latent of keys and values, and the part of the key that turns and all heads share.
  const int kv_a = layer.Project(
      {"kv_a", "kv_a", {{"self_attn.kv_a_proj_with_mqa", spec.kv_rank + spec.rope_dim}}, spec.bias},
      x);
  const WeightRef scale =
      layer.Vector("kv_a_norm", Init::kOnes, {{"self_attn.kv_a_layernorm.weight", spec.kv_rank}});
  const int latent = graph.Value("kv_latent", spec.kv_rank);
  graph.Add("kv_a_norm",
            Planned(layer, "latent_norm", kv_a, 4.0 * D(spec.kv_rank), 2.0 * D(spec.kv_rank),
                    {{0}, {}, true}),
            {kv_a}, {latent}, {scale});
  const int kv = layer.Project(
      {"kv_b", "kv", {{"self_attn.kv_b_proj", spec.heads * (spec.nope_dim + spec.v_dim)}}}, latent);
  auto op = std::make_shared<PlannedAttention>();
  op->name = "latent_attention";
  op->attributes = fmt::format("{}", spec.rope_dim);
  op->q_heads = spec.heads;
  op->kv_heads = spec.heads;
  op->qk_dim = spec.nope_dim + spec.rope_dim;
  op->v_dim = spec.v_dim;
  op->dtype = layer.dtype();
  op->needs = {{0, 1, 2, 3}, {0, 1}, false};
  const int attn = graph.Value("attn", spec.heads * spec.v_dim);
  const int lse = graph.Value("lse", DType::kF32, Extent::kTokens, spec.heads, "attn");
  graph.Add("attention", op, {q, kv, kv_a, graph.Batch("positions", DType::kI32)}, {attn, lse});
  return attn;
}

int AddGatedDelta(SegmentBuilder& layer, const GatedDeltaSpec& spec, int x) {
  GraphBuilder& graph = layer.graph();
  const int64_t k = spec.k_heads * spec.k_dim;
  const int64_t v = spec.v_heads * spec.v_dim;
  const std::string prefix = "linear_attn.";
  std::vector<HubRows> qkvz = {{prefix + "in_proj_qkv", 2 * k + v}, {prefix + "in_proj_z", v}};
  std::vector<HubRows> ba = {{prefix + "in_proj_b", spec.v_heads},
                             {prefix + "in_proj_a", spec.v_heads}};
  if (spec.fused_projections) {
    qkvz = {{prefix + "in_proj_qkvz", 2 * k + 2 * v}};
    ba = {{prefix + "in_proj_ba", 2 * spec.v_heads}};
  }
  const int in = layer.Project({"qkvz", "qkvz", qkvz}, x);
  const int rates = layer.Project({"ba", "ba", ba}, x);
  ParameterSpec filter =
      MatrixOf("conv1d", layer.dtype(), spec.kernel, {{prefix + "conv1d.weight", 2 * k + v}});
  filter.tensors[0].shape = {2 * k + v, 1, spec.kernel};
  const int conv = graph.Value("conv", 2 * k + v);
  graph.Add("causal_conv",
            Planned(layer, "causal_conv", in, D(2 * spec.kernel + 5) * D(2 * k + v),
                    2.0 * D(2 * k + v), {{0}, {}, true}),
            {in}, {conv}, {layer.Weight(std::move(filter))});
  const WeightRef decay = layer.Weight(
      VectorOf("A_log", DType::kF32, Init::kZeros, {{prefix + "A_log", spec.v_heads}}));
  const WeightRef step = layer.Vector("dt_bias", Init::kOnes, {{prefix + "dt_bias", spec.v_heads}});
  // For each value head a state of k_dim x v_dim: decayed, read, written, read for the output.
  const double state = D(spec.v_heads) * D(spec.k_dim * spec.v_dim);
  const int delta = graph.Value("delta", v);
  graph.Add(
      "gated_delta_rule",
      Planned(layer, "gated_delta_rule", conv, 7.0 * state, D(2 * k + 2 * v), {{0, 1}, {0}, true}),
      {conv, rates}, {delta}, {decay, step});
  const WeightRef scale = layer.Vector("norm", Init::kOnes, {{prefix + "norm.weight", spec.v_dim}});
  const int out = graph.Value("delta_norm", v);
  graph.Add("gated_norm",
            Planned(layer, "gated_rms_norm", delta, 10.0 * D(v), 3.0 * D(v), {{0, 1}, {}, true}),
            {delta, in}, {out}, {scale});
  return out;
}

}  // namespace lazytrain
