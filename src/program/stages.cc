#include "program/stages.h"

#include <algorithm>
#include <set>
#include <utility>

namespace lazytrain {
namespace {

void AddUnits(const SegmentChain& chain, int segment, const OpNode& node, std::set<int>& units) {
  for (const WeightRef& ref : node.weights) units.insert(chain[segment].units[ref.slot]);
}

Stage ForwardStage(const SegmentChain& chain, int segment, const std::vector<bool>& runs,
                   int pass) {
  Stage stage;
  stage.pass = pass;
  stage.first_segment = segment;
  stage.last_segment = segment;
  std::set<int> units;
  for (size_t n = 0; n < runs.size(); ++n) {
    if (runs[n]) AddUnits(chain, segment, chain[segment].graph->nodes[n], units);
  }
  stage.units.assign(units.begin(), units.end());
  return stage;
}

Stage BackwardStage(const ModelGraph& model, const Sweeps& sweeps, int block_index, int pass) {
  const SegmentChain& chain = model.loss;
  const BackwardBlock& block = sweeps.blocks[block_index];
  Stage stage;
  stage.pass = pass;
  stage.backward = true;
  stage.first_segment = block.first;
  stage.last_segment = block.last;
  stage.block = block_index;
  std::set<int> units;
  for (const NodeId& id : block.recomputed) {
    AddUnits(chain, id.segment, chain[id.segment].graph->nodes[id.node], units);
  }
  for (int s = block.last; s >= block.first; --s) {
    std::set<int> slots;
    const std::vector<OpNode>& nodes = chain[s].graph->nodes;
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (!sweeps.flow.node_runs_backward[s][n]) continue;
      if (nodes[n].op->backward_needs().weights) AddUnits(chain, s, nodes[n], units);
      for (const WeightRef& ref : nodes[n].weights) {
        const int unit = chain[s].units[ref.slot];
        if (model.units[unit].parameters[ref.parameter].trainable) slots.insert(ref.slot);
      }
    }
    for (const int slot : slots) stage.gradients.push_back({s, slot});
  }
  stage.units.assign(units.begin(), units.end());
  return stage;
}

// Appends a stage with a slot for each micro-batch in [begin, end).
void Append(StagePlan& plan, Stage stage, int begin, int end) {
  stage.first_slot = static_cast<int>(plan.slots.size());
  stage.slots = end - begin;
  const int number = static_cast<int>(plan.stages.size());
  for (int m = begin; m < end; ++m) plan.slots.push_back({number, m});
  plan.stages.push_back(std::move(stage));
}

}  // namespace

StagePlan TrainingStages(const ModelGraph& model, const Sweeps& sweeps,
                         const std::vector<int64_t>& passes) {
  StagePlan plan;
  int begin = 0;
  for (size_t p = 0; p < passes.size(); ++p) {
    const int pass = static_cast<int>(p);
    const int end = begin + static_cast<int>(passes[p]);
    for (size_t s = 0; s < model.loss.size(); ++s) {
      const std::vector<bool>& runs = sweeps.forward[s];
      if (std::find(runs.begin(), runs.end(), true) == runs.end()) continue;
      Append(plan, ForwardStage(model.loss, static_cast<int>(s), runs, pass), begin, end);
    }
    for (size_t b = 0; b < sweeps.blocks.size(); ++b) {
      Append(plan, BackwardStage(model, sweeps, static_cast<int>(b), pass), begin, end);
    }
    begin = end;
  }
  return plan;
}

StagePlan ForwardStages(const SegmentChain& chain, const std::vector<std::vector<bool>>& runs,
                        int64_t micro_batches) {
  StagePlan plan;
  for (size_t s = 0; s < chain.size(); ++s) {
    Append(plan, ForwardStage(chain, static_cast<int>(s), runs[s], 0), 0,
           static_cast<int>(micro_batches));
  }
  return plan;
}

}  // namespace lazytrain
