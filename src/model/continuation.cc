#include "model/continuation.h"

#include <algorithm>
#include <map>

namespace lazytrain {
namespace {

std::shared_ptr<const SegmentGraph> ContinuedGraph(const SegmentGraph& graph) {
  auto continued = std::make_shared<SegmentGraph>(graph);
  for (OpNode& node : continued->nodes) {
    const Continuation continuation = node.op->continuation();
    if (continuation.op == nullptr) continue;
    const int state = static_cast<int>(continued->values.size());
    continued->values.push_back({node.name + ".state", continuation.state_dtype, Extent::kContext,
                                 continuation.state_cols, ValueOrigin::kState});
    node.op = continuation.op;
    node.inputs.push_back(state);
    node.outputs = {node.outputs[0], state};
  }
  return continued;
}

}  // namespace

SegmentChain Continued(const SegmentChain& chain) {
  SegmentChain continued = chain;
  std::map<const SegmentGraph*, std::shared_ptr<const SegmentGraph>> graphs;
  for (Segment& segment : continued) {
    std::shared_ptr<const SegmentGraph>& graph = graphs[segment.graph.get()];
    if (graph == nullptr) graph = ContinuedGraph(*segment.graph);
    segment.graph = graph;
  }
  return continued;
}

bool Continues(const SegmentChain& chain, int64_t cached, int64_t total) {
  return std::all_of(chain.begin(), chain.end(), [&](const Segment& segment) {
    const std::vector<OpNode>& nodes = segment.graph->nodes;
    return std::all_of(nodes.begin(), nodes.end(),
                       [&](const OpNode& node) { return node.op->Continues(cached, total); });
  });
}

}  // namespace lazytrain
