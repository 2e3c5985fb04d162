#include "report/model_table.h"

#include <fmt/format.h>

#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "core/units.h"
#include "report/kind_name.h"

namespace lazytrain {
namespace {

// The rows of one document of `sequence` tokens; patches and image tokens as many, so that costs a
// row can be read off.
RowCounts OneDocument(int64_t sequence) {
  RowCounts rows;
  rows.tokens = sequence;
  rows.documents = 1;
  rows.longest_document = sequence;
  rows.selected = sequence;
  rows.patches = sequence;
  rows.image_tokens = sequence;
  rows.squared_lengths = static_cast<double>(sequence) * static_cast<double>(sequence);
  return rows;
}

std::string_view RowName(Extent extent) {
  switch (extent) {
    case Extent::kTokens:
      return "token";
    case Extent::kSelected:
      return "selected";
    case Extent::kPatches:
      return "patch";
    case Extent::kImageTokens:
      return "image token";
    case Extent::kContext:
      return "context token";
  }
  return "";
}

struct UnitKind {
  std::string name;
  const UnitSpec* first = nullptr;
  int64_t units = 0;
};

std::string UnitTable(const ModelGraph& model) {
  std::vector<UnitKind> kinds;
  std::map<std::pair<std::string, std::pair<int64_t, int64_t>>, size_t> known;
  for (const UnitSpec& unit : model.units) {
    const std::string name = KindOf(unit.name);
    const auto key = std::pair{name, std::pair{unit.ParameterCount(), unit.bytes}};
    const auto [found, is_new] = known.try_emplace(key, kinds.size());
    if (is_new) kinds.push_back({name, &unit, 0});
    ++kinds[found->second].units;
  }
  std::string text = fmt::format("{:<24} {:>7} {:>16} {:>12} {:>16}\n", "unit", "units",
                                 "parameters each", "bytes each", "parameters");
  for (const UnitKind& kind : kinds) {
    const int64_t count = kind.first->ParameterCount();
    text += fmt::format("{:<24} {:>7} {:>16} {:>12} {:>16}\n",
                        kind.units == 1 ? kind.first->name : kind.name, kind.units, count,
                        FormatBytes(kind.first->bytes), count * kind.units);
  }
  return text;
}

std::string ValueTable(const SegmentGraph& graph) {
  std::string text = fmt::format("  {:<20} {:>10} {:<9} {:>12} {:<12} {}\n", "value", "columns",
                                 "dtype", "bytes a row", "row", "group");
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const ValueSpec& value = graph.values[v];
    std::string group = value.origin == ValueOrigin::kBatch ? "(batch)" : "(segment before)";
    for (const ValueGroup& candidate : graph.groups) {
      for (const int member : candidate.values) {
        if (member == static_cast<int>(v)) group = candidate.name;
      }
    }
    text += fmt::format("  {:<20} {:>10} {:<9} {:>12} {:<12} {}\n", value.name, value.cols,
                        Name(value.dtype), value.cols * SizeOf(value.dtype), RowName(value.extent),
                        group);
  }
  return text;
}

struct Flops {
  double forward = 0;
  double backward = 0;
};

Flops FlopsOf(const OpNode& node, const RowCounts& rows) {
  const auto count = static_cast<double>(rows.tokens);
  return {node.op->Cost(Direction::kForward, rows).flops / count,
          node.op->Cost(Direction::kBackward, rows).flops / count};
}

// Whether the op works on what images bring, which text alone does not have.
bool IsOfImages(const SegmentGraph& graph, const OpNode& node) {
  const Extent extent = graph.values[node.outputs[0]].extent;
  return extent == Extent::kPatches || extent == Extent::kImageTokens;
}

std::string OpTable(const SegmentGraph& graph, const RowCounts& rows) {
  std::string text = fmt::format("  {:<20} {:<26} {:>16} {:>16}\n", "op", "type", "forward FLOPs",
                                 "backward FLOPs");
  for (const OpNode& node : graph.nodes) {
    const Flops flops = FlopsOf(node, rows);
    text += fmt::format("  {:<20} {:<26} {:>16.0f} {:>16.0f}\n", node.name, node.op->type(),
                        flops.forward, flops.backward);
  }
  return text;
}

std::string GraphTables(const SegmentChain& chain, const RowCounts& rows) {
  std::vector<std::pair<const SegmentGraph*, std::vector<std::string>>> graphs;
  for (const Segment& segment : chain) {
    size_t at = 0;
    while (at < graphs.size() && graphs[at].first != segment.graph.get()) ++at;
    if (at == graphs.size()) graphs.push_back({segment.graph.get(), {}});
    graphs[at].second.push_back(segment.name);
  }
  std::string text;
  for (const auto& [graph, names] : graphs) {
    text += names.size() == 1 ? fmt::format("\nsegment {}\n", names[0])
                              : fmt::format("\nsegments {} to {} ({} of one shape)\n",
                                            names.front(), names.back(), names.size());
    text += ValueTable(*graph) + "\n" + OpTable(*graph, rows);
  }
  return text;
}

std::string Totals(const ModelGraph& model, const RowCounts& rows) {
  Flops text_flops;
  Flops image_flops;
  for (const Segment& segment : model.loss) {
    for (const OpNode& node : segment.graph->nodes) {
      const Flops flops = FlopsOf(node, rows);
      Flops& sum = IsOfImages(*segment.graph, node) ? image_flops : text_flops;
      sum.forward += flops.forward;
      sum.backward += flops.backward;
    }
  }
  int64_t bytes = 0;
  for (const UnitSpec& unit : model.units) bytes += unit.bytes;
  std::string text = fmt::format(
      "\nparameters {}, weights {}\nFLOPs a token at {} tokens a document: forward {:.4g}, "
      "backward {:.4g}\n",
      model.ParameterCount(), FormatBytes(bytes), rows.tokens, text_flops.forward,
      text_flops.backward);
  if (image_flops.forward > 0) {
    text += fmt::format("FLOPs a row of the vision parts: forward {:.4g}, backward {:.4g}\n",
                        image_flops.forward, image_flops.backward);
  }
  return text;
}

}  // namespace

std::string ModelTable(const ModelGraph& model, int64_t sequence) {
  const RowCounts rows = OneDocument(sequence);
  return fmt::format("{}: {} segments, vocabulary {}, context {} tokens, {}\n\n",
                     model.architecture, model.loss.size(), model.vocab_size, model.max_positions,
                     Name(model.dtype)) +
         UnitTable(model) + GraphTables(model.loss, rows) + Totals(model, rows);
}

}  // namespace lazytrain
