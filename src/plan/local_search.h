// Finds good choices for a mixed-integer program of a step by changing a few at a time: what
// solvers are slow at, since layers are many and alike.
#pragma once

#include <cstdint>
#include <vector>

#include "core/random.h"
#include "plan/schedule_mip.h"
#include "plan/schedule_score.h"

namespace lazytrain {

class LocalSearch {
 public:
  // `mip` is read on each call and has to stay.
  explicit LocalSearch(const ScheduleMip& mip);

  // Simulated annealing (Kirkpatrick, Gelatt, Vecchi 1983) from a relaxed solution, rounded.
  // Returns the choices, other columns 0; empty if nothing was found that fits. The same for the
  // same input.
  std::vector<double> Run(const LinearSolution& relaxed, int64_t rounds);

 private:
  // Alternatives, of which one is taken: each a list of columns that are 1 then.
  struct Slot {
    std::vector<std::vector<int>> options;
    int kind = 0;
  };
  // Slots that mean the same in layers of one shape, in the order of layers.
  struct Kind {
    std::vector<int> slots;
    bool used = false;  // by the relaxed solution
  };
  struct Change {
    int slot = 0;
    int option = 0;
  };

  void AddGroups();
  void AddUnits();
  void AddSlot(Slot slot);
  void Round(const LinearSolution& relaxed);
  std::vector<Change> Propose();
  Change Alter();
  void Apply(const std::vector<Change>& changes);
  double Cost();

  const ScheduleMip& mip_;
  ScheduleScore score_;
  Random random_{1};
  std::vector<Slot> slots_;
  std::vector<Kind> kinds_;
  std::vector<int> used_;   // slots of the kinds that the relaxed solution uses
  std::vector<int> taken_;  // option of each slot
  std::vector<double> columns_;
  double excess_price_ = 0;  // seconds a GB
  double excess_ = 0;        // of the last cost
};

}  // namespace lazytrain
