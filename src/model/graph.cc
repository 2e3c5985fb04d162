#include "model/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/hash.h"

namespace lazytrain {
namespace {

template <typename Items>
int FindByName(const Items& items, std::string_view name) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace

int SegmentGraph::FindValue(std::string_view value_name) const {
  return FindByName(values, value_name);
}

int SegmentGraph::FindGroup(std::string_view group_name) const {
  return FindByName(groups, group_name);
}

std::string SegmentGraph::Signature() const {
  std::string text = name;
  for (const ValueSpec& value : values) {
    text += fmt::format("|{},{},{},{}", value.name, Name(value.dtype),
                        static_cast<int>(value.extent), value.cols);
  }
  for (const OpNode& node : nodes) {
    text += fmt::format("|{}={}:{}>{}", node.name, node.op->Signature(),
                        fmt::join(node.inputs, ","), fmt::join(node.outputs, ","));
    for (const WeightRef& ref : node.weights)
      text += fmt::format(";{}.{}", ref.slot, ref.parameter);
  }
  return text;
}

int64_t ModelGraph::ParameterCount() const {
  int64_t count = 0;
  for (const UnitSpec& unit : units) count += unit.ParameterCount();
  return count;
}

std::string ModelGraph::ShapeHash() const {
  Digest digest;
  for (const UnitSpec& unit : units) {
    digest.Add(unit.name);
    for (const ParameterSpec& parameter : unit.parameters) {
      digest.Add(fmt::format("{} {} {} {} {};", parameter.name, parameter.rows, parameter.cols,
                             Name(parameter.dtype), parameter.trainable));
    }
  }
  for (const Segment& segment : loss) {
    digest.Add(segment.name);
    for (const OpNode& node : segment.graph->nodes) digest.Add(node.op->Signature());
  }
  return digest.Hex();
}

ValueSource SourceOf(const SegmentChain& chain, int segment, int value) {
  ValueSource source{segment, value};
  while (chain[source.segment].graph->values[source.value].origin == ValueOrigin::kLiveIn) {
    const Segment& at = chain[source.segment];
    int live_in = 0;
    for (int v = 0; v < source.value; ++v) {
      if (at.graph->values[v].origin == ValueOrigin::kLiveIn) ++live_in;
    }
    source = at.live_ins[live_in];
  }
  return source;
}

GraphBuilder::GraphBuilder(std::string name, DType dtype)
    : dtype_(dtype), graph_(std::make_shared<SegmentGraph>()) {
  graph_->name = std::move(name);
}

int GraphBuilder::Batch(std::string name, DType dtype, Extent extent, int64_t cols) {
  graph_->values.push_back({std::move(name), dtype, extent, cols, ValueOrigin::kBatch});
  return static_cast<int>(graph_->values.size()) - 1;
}

int GraphBuilder::LiveIn(std::string name, int64_t cols, Extent extent) {
  graph_->values.push_back({std::move(name), dtype_, extent, cols, ValueOrigin::kLiveIn});
  return static_cast<int>(graph_->values.size()) - 1;
}

int GraphBuilder::Value(std::string name, int64_t cols, std::string group) {
  return Value(std::move(name), dtype_, Extent::kTokens, cols, std::move(group));
}

int GraphBuilder::Value(std::string name, DType dtype, Extent extent, int64_t cols,
                        std::string group) {
  if (graph_->FindValue(name) >= 0) {
    throw InternalError("graph {}: the value '{}' exists twice", graph_->name, name);
  }
  if (group.empty()) group = name;
  graph_->values.push_back({std::move(name), dtype, extent, cols, ValueOrigin::kOp});
  const int value = static_cast<int>(graph_->values.size()) - 1;
  int found = graph_->FindGroup(group);
  if (found < 0) {
    graph_->groups.push_back({std::move(group), {}});
    found = static_cast<int>(graph_->groups.size()) - 1;
  }
  graph_->groups[found].values.push_back(value);
  return value;
}

void GraphBuilder::Add(std::string name, std::shared_ptr<const Op> op, std::vector<int> inputs,
                       std::vector<int> outputs, std::vector<WeightRef> weights) {
  for (const int output : outputs) {
    // A value is complete once its last writer ran. Whoever read an earlier version would need it
    // back in backward, when only the last one can be had.
    for (const OpNode& earlier : graph_->nodes) {
      const bool reads = std::count(earlier.inputs.begin(), earlier.inputs.end(), output) > 0;
      const bool writes = std::count(earlier.outputs.begin(), earlier.outputs.end(), output) > 0;
      const bool allowed = op->in_place() && output == outputs[0] && inputs[0] == output;
      if ((writes && !allowed) || (reads && !earlier.op->in_place())) {
        throw InternalError("graph {}: op '{}' rewrites the value '{}' that '{}' uses",
                            graph_->name, name, graph_->values[output].name, earlier.name);
      }
    }
  }
  graph_->nodes.push_back(
      {std::move(name), std::move(op), std::move(inputs), std::move(outputs), std::move(weights)});
}

std::shared_ptr<const SegmentGraph> GraphBuilder::Finish() {
  for (size_t v = 0; v < graph_->values.size(); ++v) {
    if (graph_->values[v].origin != ValueOrigin::kOp) continue;
    const bool written =
        std::any_of(graph_->nodes.begin(), graph_->nodes.end(), [&](const auto& n) {
          return std::count(n.outputs.begin(), n.outputs.end(), static_cast<int>(v)) > 0;
        });
    if (!written) {
      throw InternalError("graph {}: nothing writes '{}'", graph_->name, graph_->values[v].name);
    }
  }
  return std::exchange(graph_, nullptr);
}

}  // namespace lazytrain
