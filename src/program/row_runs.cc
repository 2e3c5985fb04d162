#include "program/row_runs.h"

#include <algorithm>

namespace lazytrain {
namespace {

bool TakesChunks(const SegmentGraph& graph, const OpNode& node) {
  return node.op->row_wise() &&
         std::all_of(node.outputs.begin(), node.outputs.end(),
                     [&](int output) { return graph.values[output].extent == Extent::kTokens; });
}

RowRuns RunsOf(const SegmentGraph& graph) {
  RowRuns result;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto node = static_cast<int>(n);
    const bool in_chunks = TakesChunks(graph, graph.nodes[n]);
    if (in_chunks && !result.runs.empty() && result.runs.back().in_chunks) {
      result.runs.back().last = node;
    } else {
      result.runs.push_back({node, node, in_chunks});
    }
    result.run_of_node.push_back(static_cast<int>(result.runs.size()) - 1);
  }
  return result;
}

// Whoever reads or writes a value inside a segment: the runs of those nodes, in order.
std::vector<int> RunsThatTouch(const SegmentGraph& graph, const RowRuns& runs, int value,
                               bool& is_read) {
  std::vector<int> touching;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const OpNode& node = graph.nodes[n];
    const bool reads = std::count(node.inputs.begin(), node.inputs.end(), value) > 0;
    const bool writes = std::count(node.outputs.begin(), node.outputs.end(), value) > 0;
    // A node that writes in place does not use the value up.
    is_read = is_read || (reads && !writes);
    if (reads || writes) touching.push_back(runs.run_of_node[n]);
  }
  return touching;
}

}  // namespace

std::vector<RowRuns> FindRowRuns(const SegmentChain& chain) {
  std::vector<RowRuns> all;
  for (const Segment& segment : chain) {
    const SegmentGraph& graph = *segment.graph;
    RowRuns runs = RunsOf(graph);
    for (size_t v = 0; v < graph.values.size(); ++v) {
      bool is_read = false;
      const std::vector<int> touching = RunsThatTouch(graph, runs, static_cast<int>(v), is_read);
      const bool one_run = !touching.empty() && touching.front() == touching.back();
      runs.inner.push_back(graph.values[v].origin == ValueOrigin::kOp && is_read && one_run &&
                           runs.runs[touching.front()].in_chunks);
    }
    all.push_back(std::move(runs));
  }
  // What another segment takes in is needed as a whole.
  for (size_t s = 0; s < chain.size(); ++s) {
    for (size_t i = 0; i < chain[s].live_ins.size(); ++i) {
      const ValueSource& source = chain[s].live_ins[i];
      all[source.segment].inner[source.value] = false;
    }
  }
  return all;
}

}  // namespace lazytrain
