#include "program/compiler.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "plan/sweeps.h"
#include "program/program_writer.h"
#include "program/simulator.h"
#include "program/unit_traffic.h"
#include "program/value_flow.h"

namespace lazytrain {
namespace {

// Issues at each slot what the timing puts there, in the order in which it is wanted.
class TransferIssuer {
 public:
  // `reload` is called with the slots whose values are to be fetched.
  template <typename Reload>
  TransferIssuer(ProgramWriter& writer, UnitTraffic& traffic, const StagePlan& plan,
                 const TransferTiming& timing, const Reload& reload)
      : at_(plan.slots.size()) {
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      const Stage& stage = plan.stages[s];
      const int number = static_cast<int>(s);
      for (int k = stage.first_slot; k < stage.first_slot + stage.slots; ++k) {
        const auto add = [&](int issue, auto work) {
          at_[issue].push_back([&writer, k, work] {
            writer.SetWanted(k);
            work();
          });
        };
        if (k == stage.first_slot) {
          add(timing.weights[s],
              [&traffic, &stage, number] { traffic.FetchWeights(stage, number); });
          add(timing.gradients[s], [&traffic, &stage] { traffic.FetchGradients(stage); });
        }
        if (stage.backward) add(timing.reloads[k], [reload, k] { reload(k); });
      }
    }
  }

  void Issue(int slot) const {
    for (const auto& work : at_[slot]) work();
  }

 private:
  std::vector<std::vector<std::function<void()>>> at_;  // by slot
};

class TrainingCompiler {
 public:
  TrainingCompiler(const CompileInput& input, const Capacity& capacity, const Sweeps& sweeps,
                   const StagePlan& plan, const TransferTiming& timing)
      : model_(*input.model),
        schedule_(*input.schedule),
        sweeps_(sweeps),
        plan_(plan),
        timing_(timing),
        writer_("train", model_, *input.persistent, capacity),
        traffic_(writer_, model_, schedule_, input.states, true),
        flow_(writer_, model_.loss, traffic_, input.kernels, sweeps_.kept) {}

  // `device_bytes`: as in PlaceBuffers.
  Program Compile(int64_t device_bytes) {
    flow_.FetchBatch();
    const TransferIssuer transfers(writer_, traffic_, plan_, timing_,
                                   [this](int slot) { Reload(slot); });
    for (int k = 0; k < static_cast<int>(plan_.slots.size()); ++k) {
      const int number = plan_.slots[k].stage;
      const Stage& stage = plan_.stages[number];
      const bool begins = k == stage.first_slot;
      writer_.BeginSlot(k, timing_.holds[k]);
      if (begins && Turns(number)) flow_.EndForward(schedule_.segments);
      transfers.Issue(k);
      writer_.SetWanted(k);
      if (begins) traffic_.BeginStage(stage, number);
      Run(stage, plan_.slots[k].micro_batch, k);
      if (k + 1 == stage.first_slot + stage.slots) traffic_.EndStage(stage);
      writer_.EndSlot();
    }
    traffic_.FinishUpdates();
    traffic_.EndStep();
    return writer_.Finish(device_bytes);
  }

 private:
  // Whether backward begins with the stage.
  bool Turns(int number) const {
    return plan_.stages[number].backward && number > 0 && !plan_.stages[number - 1].backward;
  }

  void Reload(int slot) {
    const Stage& stage = plan_.stages[plan_.slots[slot].stage];
    flow_.Reload(sweeps_.blocks[stage.block], plan_.slots[slot].micro_batch, stage.pass, slot);
  }

  void Run(const Stage& stage, int micro_batch, int slot) {
    if (!stage.backward) {
      flow_.Forward(stage.first_segment, sweeps_.forward[stage.first_segment], micro_batch,
                    stage.pass);
      flow_.Offload(stage.first_segment, schedule_.segments, micro_batch, stage.pass);
      return;
    }
    const BackwardBlock& block = sweeps_.blocks[stage.block];
    flow_.Backward(block, sweeps_.flow, micro_batch, stage.pass);
    if (block.last + 1 == static_cast<int>(model_.loss.size())) {
      flow_.StoreResults(micro_batch, stage.pass);
    }
    flow_.EndBackward(block, micro_batch, slot);
  }

  const ModelGraph& model_;
  const Schedule& schedule_;
  const Sweeps& sweeps_;
  const StagePlan& plan_;
  const TransferTiming& timing_;
  ProgramWriter writer_;
  UnitTraffic traffic_;
  ValueFlow flow_;
};

Program CompileForward(const CompileInput& input, const Capacity& capacity,
                       const SegmentChain& chain, const std::string& name) {
  const ModelGraph& model = *input.model;
  ProgramWriter writer(name, model, *input.persistent, capacity);
  UnitTraffic traffic(writer, model, *input.schedule, input.states, false);
  ValueFlow flow(writer, chain, traffic, input.kernels);
  const std::vector<std::vector<bool>> runs = PlanForward(chain);
  const StagePlan plan = ForwardStages(chain, runs, capacity.micro_batches);
  const TransferTiming timing = OneAhead(plan);
  flow.FetchBatch();
  const TransferIssuer transfers(writer, traffic, plan, timing, [](int) {});
  for (int k = 0; k < static_cast<int>(plan.slots.size()); ++k) {
    const auto [number, micro_batch] = plan.slots[k];
    const Stage& stage = plan.stages[number];
    writer.BeginSlot(k, timing.holds[k]);
    transfers.Issue(k);
    if (k == stage.first_slot) traffic.BeginStage(stage, number);
    flow.Forward(stage.first_segment, runs[stage.first_segment], micro_batch, 0);
    if (number + 1 == static_cast<int>(plan.stages.size())) flow.StoreResults(micro_batch, 0);
    writer.EndSlot();
  }
  return writer.Finish();
}

// A program with one timing, and what it costs.
struct TimingTrial {
  Program program;
  double seconds = 0;

  int64_t device_bytes() const { return program.peak_bytes[kDeviceSpace]; }
};

// Trials whose simulated times differ by less than this are as good as each other.
constexpr double kSameTime = 1.001;
// Links are shared, so that transfers take longer than alone.
constexpr double kSlack = 1.25;
// Of the device's memory that transfers may fill: the arena has gaps, and what is left over may be
// as good as what is taken.
constexpr double kMemoryShares[] = {1.0, 0.98, 0.95, 0.0};

// The shortest step that fits; among those as short, the least memory; if nothing fits, that too.
Program BestTiming(const StagePlan& plan,
                   const std::function<Program(const TransferTiming&)>& compile,
                   const TransferTuning& tuning) {
  std::vector<TimingTrial> trials;
  const auto attempt = [&](const TransferTiming& timing) {
    Program program = compile(timing);
    const StepTimeline step = Simulate(program, FullStep(program.capacity), *tuning.cost);
    trials.push_back({std::move(program), step.seconds});
    return step.lanes[kComputeLane].busy;
  };
  const auto fits = [&](const TimingTrial& trial) {
    return trial.device_bytes() <= tuning.device_bytes;
  };
  const double busy = attempt(OneAhead(plan));
  const bool nothing_to_gain = trials[0].seconds <= kSameTime * busy && fits(trials[0]);
  if (nothing_to_gain) return std::move(trials[0].program);
  for (const double share : kMemoryShares) {
    const auto bytes = static_cast<int64_t>(share * static_cast<double>(tuning.device_bytes));
    // One that needs no more would come out the same; with none at all, only if nothing else fits.
    const bool known = std::any_of(trials.begin() + 1, trials.end(), [&](const TimingTrial& trial) {
      return trial.device_bytes() <= bytes || (share == 0 && fits(trial));
    });
    if (!known) attempt(JustInTime(plan, trials[0].program, *tuning.cost, kSlack, bytes));
  }
  const bool any_fits = std::any_of(trials.begin(), trials.end(), fits);
  if (any_fits) {
    std::erase_if(trials, [&](const TimingTrial& trial) { return !fits(trial); });
    double shortest = trials[0].seconds;
    for (const TimingTrial& trial : trials) shortest = std::min(shortest, trial.seconds);
    std::erase_if(trials, [&](const auto& trial) { return trial.seconds > kSameTime * shortest; });
  }
  return std::move(std::min_element(trials.begin(), trials.end(),
                                    [](const TimingTrial& a, const TimingTrial& b) {
                                      return a.device_bytes() < b.device_bytes();
                                    })
                       ->program);
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

Program CompileTraining(const CompileInput& input, const Capacity& capacity,
                        const std::optional<TransferTuning>& tuning) {
  const Sweeps sweeps =
      PlanTraining(input.model->loss, input.model->units, input.schedule->segments);
  const StagePlan plan = TrainingStages(*input.model, sweeps, input.schedule->passes);
  const auto compile = [&](const TransferTiming& timing) {
    return TrainingCompiler(input, capacity, sweeps, plan, timing)
        .Compile(tuning ? tuning->device_bytes : 0);
  };
  if (!tuning) return compile(OneAhead(plan));
  return BestTiming(plan, compile, *tuning);
}

Program CompileEvaluation(const CompileInput& input, const Capacity& capacity) {
  return CompileForward(input, capacity, input.model->loss, "evaluate");
}

Program CompileLogits(const CompileInput& input, const Capacity& capacity) {
  return CompileForward(input, capacity, input.model->logits, "logits");
}

Program CompileGeneration(const CompileInput& input, const Capacity& capacity,
                          const std::string& name) {
  return CompileForward(input, capacity, input.model->generation, name);
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
