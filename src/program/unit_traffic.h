// The part of a program that moves and updates weight units: fetches before use, gradient
// accumulators and where they rest, updates before the first fetch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/graph.h"
#include "plan/schedule.h"
#include "program/program_writer.h"
#include "program/stages.h"

namespace lazytrain {

class UnitTraffic {
 public:
  // `states`: how gradients are stored. `update`: whether a pending update is applied before the
  // first fetch of a unit.
  UnitTraffic(ProgramWriter& writer, const ModelGraph& model, const Schedule& schedule,
              const StateSpec& states, bool update);

  // Fetches what a later stage reads and is not there: weights (and, before their first use,
  // updates them); stored gradients that are added to. `number` is the stage's position.
  void FetchWeights(const Stage& stage, int number);
  void FetchGradients(const Stage& stage);
  // The stage begins, everything it needs was fetched: gives back the memory of units that nobody
  // asked for again, updates on the device, makes accumulators ready.
  void BeginStage(const Stage& stage, int number);
  // Rounds, sums and stores the gradients of a backward stage.
  void EndStage(const Stage& stage);

  // The device's copy of a parameter, and its gradient, while a stage that needs it is on.
  Operand Weight(int segment, const WeightRef& ref) const;
  Operand Gradient(int segment, const WeightRef& ref) const;
  // Whether a write to the gradient adds to what is there; the first write of a step does not.
  bool Accumulates(int segment, const WeightRef& ref);

  // Updates (and refreshes the device's copies of) every unit not fetched so far.
  void FinishUpdates();
  // After the last backward stage: the partial sums go to the host, which ends the step.
  void EndStep();
  // Copies to the host what only the device has up to date, or to the device what it starts with.
  void Flush();
  void Load();

 private:
  struct UnitState {
    bool updated = false;                  // or about to be: `arriving`
    int last_wanted = -1;                  // stage
    std::optional<UpdateAction> arriving;  // an update on the device whose states are on their way
    int weights = -1;                      // device buffer, -1: not there
    std::vector<int> accumulators;         // for each use; -1: not there
    std::vector<int> to_widen;             // fetched stored gradients, for each use; -1: none
    std::vector<std::vector<bool>> written;  // [use][parameter], in this step
  };

  int UnitOf(const UnitUse& use) const;
  int UseIndex(int segment, int slot) const;

  void Fetch(int unit, int pass);
  void FetchGradient(const UnitUse& use, int pass);
  void StartUpdate(int unit);
  void UpdateOnHost(int unit);
  void FetchStates(int unit);
  void UpdateOnDevice(int unit);
  int FetchState(int unit, int host, int resident, const std::string& what);
  void StoreState(int unit, const Operand& device, int host, int resident, const std::string& what);
  void MakeAccumulator(const UnitUse& use, int pass);
  void StoreGradient(const UnitUse& use, int pass, bool last_pass);
  void AddOtherUses(int unit, int pass);
  void RoundAndStore(int unit, size_t use, int pass, bool final);
  Operand PartialSums(int unit);
  Operand StoredGradient(int buffer) const;

  ProgramWriter& writer_;
  const ModelGraph& model_;
  const Schedule& schedule_;
  StateSpec states_;
  bool update_;
  std::vector<UnitState> units_;
  int partial_sums_ = -1;
  std::vector<int64_t> partial_sum_offsets_;  // bytes, for each unit
  int64_t partial_sum_bytes_ = 0;
};

}  // namespace lazytrain
