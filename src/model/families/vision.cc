#include "model/families/vision.h"

#include <fmt/core.h>

#include <utility>

#include "core/error.h"
#include "model/families/planned_blocks.h"

namespace lazytrain {
namespace {

double D(int64_t value) { return static_cast<double>(value); }

std::vector<HubRows> EqualRows(const std::vector<std::string>& names, int64_t rows) {
  std::vector<HubRows> tensors;
  tensors.reserve(names.size());
  for (const std::string& name : names) tensors.push_back({name, rows});
  return tensors;
}

int AddNorm(SegmentBuilder& segment, const VisionSpec& spec, const std::string& value, int x,
            const std::string& tensor) {
  return spec.rms_norm ? segment.Norm(value, x, tensor, NormSpec{})
                       : AddLayerNorm(segment, value, x, tensor);
}

// x + learned positions (and a class token's row, which is not counted among the patches).
int AddPositions(SegmentBuilder& segment, const VisionSpec& spec, const std::string& value, int x) {
  ParameterSpec table =
      MatrixOf("positions", segment.dtype(), spec.hidden, {{spec.position, spec.positions}});
  if (!spec.position_shape.empty()) table.tensors[0].shape = spec.position_shape;
  std::vector<WeightRef> weights = {segment.Weight(std::move(table))};
  if (!spec.class_token.empty()) {
    ParameterSpec token =
        VectorOf("class_token", segment.dtype(), Init::kNormal, {{spec.class_token, spec.hidden}});
    if (!spec.class_shape.empty()) token.tensors[0].shape = spec.class_shape;
    weights.push_back(segment.Weight(std::move(token)));
  }
  auto op = Planned(segment, "add_positions", x, D(spec.hidden), 3.0 * D(spec.hidden), {});
  op->needs.weights = false;
  op->residual = 0;
  const int y = segment.graph().Value(value, segment.dtype(), Extent::kPatches, spec.hidden);
  segment.graph().Add("add_positions", op, {x}, {y}, std::move(weights));
  return y;
}

void AddPatches(ModelBuilder& model, const VisionSpec& spec) {
  SegmentBuilder segment("vision.patches", "vision_patches", spec.prefix, model.options().dtype);
  const int64_t cols = NumElements(spec.patch_shape);
  const int pixels = segment.graph().Batch("pixels", segment.dtype(), Extent::kPatches, cols);
  Shape patch_shape = spec.patch_shape;
  patch_shape.insert(patch_shape.begin(), spec.hidden);
  // The last op's value is the segment's output.
  const bool positions = spec.positions > 0;
  const bool normed = !spec.pre_norm.empty();
  int x = segment.Project({"patch",
                           positions || normed ? "patches" : "out",
                           {{spec.patch, spec.hidden}},
                           spec.patch_bias},
                          pixels);
  segment.SetShape(0, patch_shape);
  if (positions) x = AddPositions(segment, spec, normed ? "placed" : "out", x);
  if (normed) AddNorm(segment, spec, "out", x, spec.pre_norm);
  model.Add(std::move(segment));
}

// y * factor + x.
int AddScaled(SegmentBuilder& layer, const std::string& value, const std::string& tensor, int y,
              int x) {
  const int64_t cols = layer.cols(x);
  const WeightRef factor = layer.Vector(tensor, Init::kOnes, {{tensor, cols}});
  auto op = Planned(layer, "scaled_sum", y, 2.0 * D(cols), 3.0 * D(cols), {{0}, {}, true});
  op->residual = 1;
  const int sum = layer.graph().Value(value, layer.dtype(), Extent::kPatches, cols);
  layer.graph().Add(value, op, {y, x}, {sum}, {factor});
  return sum;
}

// `projection` of y, scaled if the tower does, plus x.
int AddBack(SegmentBuilder& layer, Projection projection, const std::string& scale, int y, int x) {
  if (scale.empty()) return layer.Project(projection, y, x);
  const std::string value = std::exchange(projection.value, projection.name);
  return AddScaled(layer, value, scale, layer.Project(projection, y), x);
}

void AddVisionLayer(ModelBuilder& model, const VisionSpec& spec, int64_t index) {
  SegmentBuilder layer(fmt::format("vision.layers.{}", index), "vision_layer",
                       fmt::format("{}{}{}.", spec.prefix, spec.layer_prefix, index),
                       model.options().dtype);
  const Heads heads{spec.heads, spec.heads, spec.hidden / spec.heads};
  const auto parts = static_cast<int64_t>(spec.qkv.size());
  const int x = layer.graph().LiveIn("x", spec.hidden, Extent::kPatches);
  const int norm1 = AddNorm(layer, spec, "norm1", x, spec.norm1);
  const int qkv =
      layer.Project({"qkv", "qkv", EqualRows(spec.qkv, 3 * spec.hidden / parts), true}, norm1);
  const int attn =
      AddAttentionVariant(layer, heads, qkv, {"bidirectional_attention", 0, spec.span, {}});
  const int mid = AddBack(layer, {"o", "mid", {{spec.o, spec.hidden}}, true}, spec.scale1, attn, x);
  const int norm2 = AddNorm(layer, spec, "norm2", mid, spec.norm2);
  const int up = layer.Project({"fc1", "fc1", EqualRows(spec.fc1, spec.intermediate), true}, norm2);
  const int act = AddActivation(layer, "act", up, spec.activation, spec.fc1.size() == 2);
  AddBack(layer, {"fc2", "out", {{spec.fc2, spec.hidden}}, true}, spec.scale2, act, mid);
  AddLayer(model, std::move(layer));
}

// Patches of one image token, joined, through two projections.
ValueSource AddQwenMerger(ModelBuilder& model, const HubConfig& config, const std::string& name,
                          const std::string& prefix, bool norm_behind_merge,
                          const ValueSource& source) {
  const int64_t hidden = config.PositiveInt("hidden_size");
  const int64_t side = config.PositiveInt("spatial_merge_size");
  SegmentBuilder segment(name, norm_behind_merge ? "deep_merger" : "merger", prefix,
                         model.options().dtype);
  const int x = segment.graph().LiveIn("x", hidden, Extent::kPatches);
  int joined = kNoValue;
  if (norm_behind_merge) {
    joined =
        AddLayerNorm(segment, "normed", AddPatchMerge(segment, "joined", x, side * side), "norm");
  } else {
    joined =
        AddPatchMerge(segment, "joined", AddLayerNorm(segment, "normed", x, "norm"), side * side);
  }
  const int64_t wide = hidden * side * side;
  const int fc1 = segment.Project({"fc1", "fc1", {{"linear_fc1", wide}}, true}, joined);
  const int act = AddActivation(segment, "act", fc1, "gelu", false);
  segment.Project({"fc2", "out", {{"linear_fc2", config.PositiveInt("out_hidden_size")}}, true},
                  act);
  const int place = model.Add(std::move(segment), {source});
  return model.Find(place, "out");
}

}  // namespace

void AddVisionTower(ModelBuilder& model, const VisionSpec& spec) {
  AddPatches(model, spec);
  for (int64_t i = 0; i < spec.layers; ++i) AddVisionLayer(model, spec, i);
  if (spec.post_norm.empty()) return;
  SegmentBuilder segment("vision.norm", "vision_norm", spec.prefix, model.options().dtype);
  const int x = segment.graph().LiveIn("x", spec.hidden, Extent::kPatches);
  AddNorm(segment, spec, "out", x, spec.post_norm);
  AddLayer(model, std::move(segment));
}

int AddPatchMerge(SegmentBuilder& segment, const std::string& value, int x, int64_t patches) {
  const int64_t cols = segment.cols(x) * patches;
  const int y = segment.graph().Value(value, segment.dtype(), Extent::kImageTokens, cols);
  segment.graph().Add(
      value, Planned(segment, "merge_patches", x, 0, 2.0 * D(segment.cols(x)), {{}, {}, false}),
      {x}, {y});
  return y;
}

void AddImageTokens(ModelBuilder& model, int64_t hidden, const ValueSource& images) {
  SegmentBuilder segment(fmt::format("images.{}", images.segment), "images", "",
                         model.options().dtype);
  GraphBuilder& graph = segment.graph();
  const int x = graph.LiveIn("x", hidden);
  const int tokens = graph.LiveIn("images", hidden, Extent::kImageTokens);
  const int rows = graph.Batch("image_rows", DType::kI32, Extent::kImageTokens);
  auto op = Planned(segment, "place_image_tokens", x, 0, 2.0 * D(hidden), {{2}, {}, false});
  op->constants = {2};
  graph.Add("place_image_tokens", op, {x, tokens, rows}, {graph.Value("out", hidden)});
  const ValueSource before = model.Last();
  model.Add(std::move(segment), {before, images});
}

QwenVision AddQwenVision(ModelBuilder& model, const HubConfig& config, const std::string& prefix) {
  VisionSpec spec;
  spec.prefix = prefix;
  spec.hidden = config.PositiveInt("hidden_size");
  spec.intermediate = config.PositiveInt("intermediate_size");
  spec.layers = config.PositiveInt("depth");
  spec.heads = config.PositiveInt("num_heads");
  const int64_t side = config.PositiveInt("patch_size");
  spec.patch_shape = {config.PositiveIntOr("in_channels", 3),
                      config.PositiveInt("temporal_patch_size"), side, side};
  spec.patch = "patch_embed.proj";
  spec.positions = config.PositiveInt("num_position_embeddings");
  spec.span = spec.positions;  // images have any size; costs are those of one that fills the table
  spec.position = "pos_embed.weight";
  spec.layer_prefix = "blocks.";
  spec.norm1 = "norm1";
  spec.norm2 = "norm2";
  spec.qkv = {"attn.qkv"};
  spec.o = "attn.proj";
  spec.fc1 = {"mlp.linear_fc1"};
  spec.fc2 = "mlp.linear_fc2";
  spec.activation = config.StringOr("hidden_act", "gelu_pytorch_tanh");
  AddVisionTower(model, spec);
  const ValueSource last = model.Last();
  QwenVision vision;
  const Json deep = config.json().value("deepstack_visual_indexes", Json::array());
  for (size_t i = 0; i < deep.size(); ++i) {
    const int64_t layer = deep[i].get<int64_t>();
    if (layer < 0 || layer >= spec.layers) {
      throw RunError("{}: 'deepstack_visual_indexes' holds {}; the tower has {} layers",
                     config.place(), layer, spec.layers);
    }
    // Segment 0 makes patches, segment i + 1 is layer i.
    const ValueSource source = model.Find(static_cast<int>(layer) + 1, "out");
    vision.deep.push_back(AddQwenMerger(model, config, fmt::format("vision.deep_merger.{}", i),
                                        fmt::format("{}deepstack_merger_list.{}.", prefix, i), true,
                                        source));
  }
  vision.tokens = AddQwenMerger(model, config, "vision.merger", prefix + "merger.", false, last);
  return vision;
}

}  // namespace lazytrain
