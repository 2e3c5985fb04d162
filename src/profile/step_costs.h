// What the measured times of real steps say about the machine.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"
#include "plan/cost_model.h"
#include "program/simulator.h"

namespace lazytrain {

class StepCosts {
 public:
  // `program` has to stay.
  explicit StepCosts(const Program& program) : program_(program) {}

  // A step of these sizes took these times.
  void Add(const StepTimeline& timeline, const StepRows& rows);

  // `believed`, with the times of ops, the rates of copies and those of updates as they were
  // measured. What no step had stays as it was believed.
  CostModel Correct(const CostModel& believed) const;

 private:
  struct Call {
    const Op* op = nullptr;
    RowCounts rows;
    double seconds = 0;
  };
  struct Total {
    double amount = 0;  // bytes or parameters
    double seconds = 0;
  };

  void AddTo(Total& total, double amount, double seconds) const;
  double Parameters(int unit) const;

  const Program& program_;
  std::map<std::pair<std::string, Direction>, std::vector<Call>> ops_;
  std::map<LaneKind, Total> copies_;
  std::map<LaneKind, Total> updates_;
  Total sweeps_;  // of device memory: gradients rounded and widened
};

}  // namespace lazytrain
