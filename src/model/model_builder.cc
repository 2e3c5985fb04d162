#include "model/model_builder.h"

#include <utility>

#include "core/error.h"
#include "model/continuation.h"
#include "ops/linear.h"
#include "ops/rms_norm.h"

namespace lazytrain {

ParameterSpec MatrixOf(std::string name, DType dtype, int64_t cols,
                       const std::vector<HubRows>& tensors) {
  ParameterSpec parameter;
  parameter.name = std::move(name);
  parameter.cols = cols;
  parameter.dtype = dtype;
  parameter.decays = true;
  for (const HubRows& tensor : tensors) {
    parameter.tensors.push_back({tensor.name, {tensor.rows, cols}, parameter.rows * cols});
    parameter.rows += tensor.rows;
  }
  return parameter;
}

ParameterSpec VectorOf(std::string name, DType dtype, Init init,
                       const std::vector<HubRows>& tensors) {
  ParameterSpec parameter;
  parameter.name = std::move(name);
  parameter.rows = 1;
  parameter.dtype = dtype;
  parameter.init = init;
  for (const HubRows& tensor : tensors) {
    parameter.tensors.push_back({tensor.name, {tensor.rows}, parameter.cols});
    parameter.cols += tensor.rows;
  }
  return parameter;
}

namespace {

void AddPrefix(const std::string& prefix, ParameterSpec& parameter) {
  for (HubTensor& tensor : parameter.tensors) tensor.name = prefix + tensor.name;
}

std::vector<HubRows> WithSuffix(std::vector<HubRows> tensors, const std::string& suffix) {
  for (HubRows& tensor : tensors) tensor.name += suffix;
  return tensors;
}

}  // namespace

SegmentBuilder::SegmentBuilder(std::string name, std::string graph_name, std::string prefix,
                               DType dtype)
    : name_(std::move(name)), prefix_(std::move(prefix)), graph_(std::move(graph_name), dtype) {
  units_.push_back({name_, {}, 0, 0});
}

WeightRef SegmentBuilder::Weight(ParameterSpec parameter) {
  AddPrefix(prefix_, parameter);
  return {0, units_[0].Add(std::move(parameter))};
}

WeightRef SegmentBuilder::Matrix(std::string name, int64_t cols,
                                 const std::vector<HubRows>& tensors) {
  return Weight(MatrixOf(std::move(name), dtype(), cols, tensors));
}

WeightRef SegmentBuilder::Vector(std::string name, Init init, const std::vector<HubRows>& tensors) {
  return Weight(VectorOf(std::move(name), dtype(), init, tensors));
}

int SegmentBuilder::AddUnit(UnitSpec unit) {
  for (ParameterSpec& parameter : unit.parameters) AddPrefix(prefix_, parameter);
  units_.push_back(std::move(unit));
  return static_cast<int>(units_.size()) - 1;
}

int SegmentBuilder::Norm(std::string value, int x, const std::string& tensor, const NormSpec& norm,
                         int residual) {
  auto op = std::make_shared<RmsNorm>();
  op->hidden = cols(x);
  op->eps = norm.eps;
  op->scale_offset = norm.scale_offset;
  op->has_residual = residual != kNoValue;
  op->dtype = dtype();
  op->extent = extent(x);
  const Init init = norm.scale_offset == 0.0f ? Init::kOnes : Init::kZeros;
  const WeightRef scale = Vector(tensor, init, {{tensor + ".weight", op->hidden}});
  const int y = graph_.Value(value, dtype(), op->extent, op->hidden);
  std::vector<int> inputs = {x};
  if (op->has_residual) inputs.push_back(residual);
  // A residual's sum is named for what it is; the norm before it, for the tensor.
  graph_.Add(op->has_residual ? tensor : std::move(value), op, std::move(inputs), {y}, {scale});
  return y;
}

int SegmentBuilder::Project(const Projection& projection, int x, int residual) {
  auto op = std::make_shared<Linear>();
  op->in_features = cols(x);
  for (const HubRows& tensor : projection.tensors) op->out_features += tensor.rows;
  op->has_bias = projection.bias;
  op->has_residual = residual != kNoValue;
  op->dtype = dtype();
  op->output_dtype = dtype();
  op->extent = extent(x);
  std::vector<WeightRef> weights = {
      Matrix(projection.name, op->in_features, WithSuffix(projection.tensors, ".weight"))};
  if (projection.bias) {
    weights.push_back(
        Vector(projection.name + ".bias", Init::kZeros, WithSuffix(projection.tensors, ".bias")));
  }
  const int y = graph_.Value(projection.value, dtype(), op->extent, op->out_features);
  std::vector<int> inputs = {x};
  if (op->has_residual) inputs.push_back(residual);
  graph_.Add(projection.name + "_proj", op, std::move(inputs), {y}, std::move(weights));
  return y;
}

ModelBuilder::ModelBuilder(std::string architecture, const GraphOptions& options)
    : options_(options) {
  model_.architecture = std::move(architecture);
  model_.dtype = options.dtype;
}

int ModelBuilder::Add(SegmentBuilder segment, std::vector<ValueSource> live_ins) {
  std::shared_ptr<const SegmentGraph> graph = segment.graph_.Finish();
  const auto& shared = graphs_.try_emplace(graph->Signature(), graph).first->second;
  Segment placed{std::move(segment.name_), shared, {}, std::move(live_ins)};
  for (UnitSpec& unit : segment.units_) {
    if (unit.parameters.empty() && segment.units_.size() == 1) continue;  // nothing to move
    placed.units.push_back(static_cast<int>(model_.units.size()));
    model_.units.push_back(std::move(unit));
  }
  body_.push_back(std::move(placed));
  return static_cast<int>(body_.size()) - 1;
}

ValueSource ModelBuilder::Find(int place, const std::string& name) const {
  const int value = body_[static_cast<size_t>(place)].graph->FindValue(name);
  if (value < 0) {
    throw InternalError("segment {} has no value '{}'", body_[static_cast<size_t>(place)].name,
                        name);
  }
  return {place, value};
}

ValueSource ModelBuilder::Last(const std::string& name) const {
  return Find(static_cast<int>(body_.size()) - 1, name);
}

int ModelBuilder::embedding_unit() const {
  for (size_t unit = 0; unit < model_.units.size(); ++unit) {
    if (model_.units[unit].name == "embedding") return static_cast<int>(unit);
  }
  throw InternalError("architecture {}: a tied head without an embedding", model_.architecture);
}

ModelGraph ModelBuilder::Finish(UnitSpec unit, int tied_unit,
                                std::shared_ptr<const SegmentGraph> loss,
                                std::shared_ptr<const SegmentGraph> logits, int64_t vocab_size,
                                int64_t max_positions) {
  std::vector<int> units = {static_cast<int>(model_.units.size())};
  if (tied_unit >= 0) units.push_back(tied_unit);
  model_.units.push_back(std::move(unit));
  model_.vocab_size = vocab_size;
  model_.max_positions = max_positions;
  const ValueSource x = Last();
  model_.loss = body_;
  model_.loss.push_back({"head", std::move(loss), units, {x}});
  model_.logits = std::move(body_);
  model_.logits.push_back({"head", std::move(logits), units, {x}});
  model_.generation = Continued(model_.logits);
  return std::move(model_);
}

}  // namespace lazytrain
