#include "program/compiler.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "plan/sweeps.h"
#include "program/program_writer.h"
#include "program/unit_traffic.h"
#include "program/value_flow.h"

namespace lazytrain {
namespace {

// Micro-batches of a pass: [begin, end).
struct PassRange {
  int begin;
  int end;
};

std::vector<PassRange> PassRanges(const Schedule& schedule) {
  std::vector<PassRange> ranges;
  int begin = 0;
  for (const int64_t size : schedule.passes) {
    ranges.push_back({begin, begin + static_cast<int>(size)});
    begin = ranges.back().end;
  }
  return ranges;
}

void AddUnits(const SegmentChain& chain, int segment, const OpNode& node, std::set<int>& units) {
  for (const WeightRef& ref : node.weights) units.insert(chain[segment].units[ref.slot]);
}

Stage ForwardStage(const SegmentChain& chain, int segment, const std::vector<bool>& runs,
                   int pass) {
  Stage stage{pass, false, segment, segment, -1, {}, {}};
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
  Stage stage{pass, true, block.first, block.last, block_index, {}, {}};
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

// The stages of a training step, in order.
std::vector<Stage> TrainingStages(const ModelGraph& model, const Sweeps& sweeps, int passes) {
  std::vector<Stage> stages;
  for (int pass = 0; pass < passes; ++pass) {
    for (size_t s = 0; s < model.loss.size(); ++s) {
      const std::vector<bool>& runs = sweeps.forward[s];
      if (std::find(runs.begin(), runs.end(), true) == runs.end()) continue;
      stages.push_back(ForwardStage(model.loss, static_cast<int>(s), runs, pass));
    }
    for (size_t b = 0; b < sweeps.blocks.size(); ++b) {
      stages.push_back(BackwardStage(model, sweeps, static_cast<int>(b), pass));
    }
  }
  return stages;
}

class TrainingCompiler {
 public:
  TrainingCompiler(const CompileInput& input, const Capacity& capacity)
      : model_(*input.model),
        schedule_(*input.schedule),
        writer_("train", model_, *input.persistent, capacity),
        traffic_(writer_, model_, schedule_, input.states, true),
        flow_(writer_, model_.loss, traffic_, input.kernels),
        sweeps_(PlanTraining(model_.loss, model_.units, schedule_.segments)),
        passes_(PassRanges(schedule_)),
        stages_(TrainingStages(model_, sweeps_, static_cast<int>(passes_.size()))) {}

  Program Compile() {
    flow_.FetchBatch();
    for (size_t i = 0; i < stages_.size(); ++i) {
      traffic_.BeginStage(stages_, i);
      if (stages_[i].backward) {
        RunBackward(i);
      } else {
        RunForward(stages_[i]);
      }
      const bool turns = !stages_[i].backward && i + 1 < stages_.size() && stages_[i + 1].backward;
      if (turns) flow_.EndForward(sweeps_, schedule_.segments);
    }
    traffic_.FinishUpdates();
    traffic_.EndStep();
    return writer_.Finish();
  }

 private:
  void RunForward(const Stage& stage) {
    const PassRange range = passes_[stage.pass];
    for (int m = range.begin; m < range.end; ++m) {
      flow_.Forward(stage.first_segment, sweeps_.forward[stage.first_segment], m, stage.pass);
      flow_.Offload(stage.first_segment, sweeps_, schedule_.segments, m, stage.pass);
      writer_.EndSlot();
    }
  }

  void RunBackward(size_t index) {
    const Stage& stage = stages_[index];
    const BackwardBlock& block = sweeps_.blocks[stage.block];
    const PassRange range = passes_[stage.pass];
    flow_.Reload(block, range.begin, stage.pass);
    for (int m = range.begin; m < range.end; ++m) {
      ReloadAhead(index, m);
      flow_.Backward(block, sweeps_.flow, m, stage.pass);
      if (block.last + 1 == static_cast<int>(model_.loss.size())) {
        flow_.StoreResults(m, stage.pass);
      }
      flow_.EndBackward(block, m);
      writer_.EndSlot();
    }
    traffic_.EndStage(stages_, index);
  }

  // What the slot after (stage, micro-batch) reads from the host.
  void ReloadAhead(size_t index, int micro_batch) {
    const Stage& stage = stages_[index];
    const PassRange range = passes_[stage.pass];
    if (micro_batch + 1 < range.end) {
      flow_.Reload(sweeps_.blocks[stage.block], micro_batch + 1, stage.pass);
    } else if (index + 1 < stages_.size() && stages_[index + 1].backward) {
      flow_.Reload(sweeps_.blocks[stages_[index + 1].block], range.begin, stage.pass);
    }
  }

  const ModelGraph& model_;
  const Schedule& schedule_;
  ProgramWriter writer_;
  UnitTraffic traffic_;
  ValueFlow flow_;
  Sweeps sweeps_;
  std::vector<PassRange> passes_;
  std::vector<Stage> stages_;
};

Program CompileForward(const CompileInput& input, const Capacity& capacity,
                       const SegmentChain& chain, const std::string& name) {
  const ModelGraph& model = *input.model;
  ProgramWriter writer(name, model, *input.persistent, capacity);
  UnitTraffic traffic(writer, model, *input.schedule, input.states, false);
  ValueFlow flow(writer, chain, traffic, input.kernels);
  const std::vector<std::vector<bool>> runs = PlanForward(chain);
  std::vector<Stage> stages;
  for (size_t s = 0; s < chain.size(); ++s) {
    stages.push_back(ForwardStage(chain, static_cast<int>(s), runs[s], 0));
  }
  flow.FetchBatch();
  for (size_t s = 0; s < stages.size(); ++s) {
    traffic.BeginStage(stages, s);
    for (int m = 0; m < static_cast<int>(capacity.micro_batches); ++m) {
      flow.Forward(static_cast<int>(s), runs[s], m, 0);
      if (s + 1 == stages.size()) flow.StoreResults(m, 0);
      writer.EndSlot();
    }
  }
  return writer.Finish();
}

template <typename Fill>
Program CompileUnits(const CompileInput& input, const std::string& name, bool update,
                     const Fill& fill) {
  Capacity none;
  none.micro_batches = 0;
  ProgramWriter writer(name, *input.model, *input.persistent, none);
  UnitTraffic traffic(writer, *input.model, *input.schedule, input.states, update);
  fill(traffic);
  return writer.Finish();
}

}  // namespace

Program CompileTraining(const CompileInput& input, const Capacity& capacity) {
  return TrainingCompiler(input, capacity).Compile();
}

Program CompileEvaluation(const CompileInput& input, const Capacity& capacity) {
  return CompileForward(input, capacity, input.model->loss, "evaluate");
}

Program CompileLogits(const CompileInput& input, const Capacity& capacity) {
  return CompileForward(input, capacity, input.model->logits, "logits");
}

Program CompileUpdate(const CompileInput& input) {
  return CompileUnits(input, "update", true, [](UnitTraffic& t) { t.FinishUpdates(); });
}

Program CompileLoad(const CompileInput& input) {
  return CompileUnits(input, "load", false, [](UnitTraffic& t) { t.Load(); });
}

Program CompileFlush(const CompileInput& input) {
  return CompileUnits(input, "flush", false, [](UnitTraffic& t) { t.Flush(); });
}

}  // namespace lazytrain
