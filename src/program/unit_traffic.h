// The part of a program that moves and updates weight units: fetches before use, gradient
// accumulators and where they rest, updates before the first fetch.
#pragma once

#include <string>
#include <vector>

#include "model/graph.h"
#include "plan/schedule.h"
#include "program/program_writer.h"

namespace lazytrain {

// A stretch of a program in which the same units are on the device: one segment forward, or one
// block backward, for all micro-batches of a pass.
struct Stage {
  int pass = 0;
  bool backward = false;
  int first_segment = 0;
  int last_segment = 0;
  int block = -1;                  // backward: position among the sweeps' blocks
  std::vector<int> units;          // whose weights are read
  std::vector<UnitUse> gradients;  // uses whose gradients are made
};

class UnitTraffic {
 public:
  // `states`: how gradients are stored. `update`: whether a pending update is applied before the
  // first fetch of a unit.
  UnitTraffic(ProgramWriter& writer, const ModelGraph& model, const Schedule& schedule,
              const StateSpec& states, bool update);

  // Everything the stages at `index` needs and, from memory that is free by then, what the next one
  // needs: fetches weights, and stored gradients that are added to.
  void BeginStage(const std::vector<Stage>& stages, size_t index);
  // Rounds, sums and stores the gradients of a backward stage.
  void EndStage(const std::vector<Stage>& stages, size_t index);

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
    bool updated = false;
    int weights = -1;                        // device buffer, -1: not there
    std::vector<int> accumulators;           // for each use; -1: not there
    std::vector<int> to_widen;               // fetched stored gradients, for each use; -1: none
    std::vector<std::vector<bool>> written;  // [use][parameter], in this step
  };

  int UnitOf(const UnitUse& use) const;
  int UseIndex(int segment, int slot) const;

  void FetchForStage(const Stage& stage);
  void Fetch(int unit, int pass);
  void FetchGradient(const UnitUse& use, int pass);
  void StartUpdate(int unit);
  void UpdateOnHost(int unit);
  void UpdateOnDevice(int unit);
  int FetchState(int unit, int host, int resident, const std::string& what);
  void StoreState(int unit, int device, int host, int resident, const std::string& what);
  void Arrive(const Stage& stage);
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
