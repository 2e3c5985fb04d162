#include "profile/step_costs.h"

#include <algorithm>
#include <variant>

namespace lazytrain {
namespace {

// Copies below this are mostly overhead.
constexpr double kSmallCopy = 64e3;

}  // namespace

void StepCosts::AddTo(Total& total, double amount, double seconds) const {
  total.amount += amount;
  total.seconds += seconds;
}

double StepCosts::Parameters(int unit) const {
  double count = 0;
  for (const UnitParameter& p : program_.unit_parameters[unit]) {
    count += static_cast<double>(p.elements);
  }
  return count;
}

void StepCosts::Add(const StepTimeline& timeline, const StepRows& rows) {
  for (size_t i = 0; i < program_.instructions.size(); ++i) {
    const Instruction& instruction = program_.instructions[i];
    const InstructionRows sizes = RowsOf(instruction, rows);
    if (sizes.skipped) continue;
    const double seconds = timeline.spans[i].end - timeline.spans[i].start;
    const LaneKind lane = program_.lanes[instruction.lane].kind;
    if (const auto* op = std::get_if<OpAction>(&instruction.action)) {
      ops_[{op->op->Signature(), op->direction}].push_back({op->op, sizes.rows, seconds});
    } else if (const auto* copy = std::get_if<CopyAction>(&instruction.action)) {
      const auto bytes = static_cast<double>(BytesOf(copy->from, sizes.rows));
      if (bytes >= kSmallCopy) AddTo(copies_[lane], bytes, seconds);
    } else if (const auto* update = std::get_if<UpdateAction>(&instruction.action)) {
      AddTo(updates_[lane], Parameters(update->unit), seconds);
    } else if (const auto* round = std::get_if<RoundGradientAction>(&instruction.action)) {
      AddTo(sweeps_, 8 * Parameters(round->unit), seconds);
    } else if (const auto* widen = std::get_if<WidenGradientAction>(&instruction.action)) {
      AddTo(sweeps_, 10 * Parameters(widen->unit), seconds);
    }
  }
}

CostModel StepCosts::Correct(const CostModel& believed) const {
  CostModel cost = believed;
  // Rates first: times of ops are kept beside what the rates make of them.
  HardwareRates& rates = cost.rates();
  const auto correct = [](const std::map<LaneKind, Total>& totals, LaneKind lane, double& rate) {
    const auto found = totals.find(lane);
    if (found == totals.end() || found->second.seconds <= 0) return;
    rate = found->second.amount / found->second.seconds;
  };
  correct(copies_, LaneKind::kHostToDevice, rates.h2d_bytes);
  correct(copies_, LaneKind::kDeviceToHost, rates.d2h_bytes);
  correct(updates_, LaneKind::kHost, rates.host_update);
  correct(updates_, LaneKind::kCompute, rates.device_update);
  if (sweeps_.seconds > 0) rates.device_bytes = sweeps_.amount / sweeps_.seconds;
  for (const auto& [key, calls] : ops_) {
    // The middle of what they took beside what was believed: sizes differ from call to call.
    std::vector<std::pair<double, const Call*>> ratios;
    for (const Call& call : calls) {
      const double expected = believed.OpSeconds(*call.op, key.second, call.rows);
      if (expected > 0) ratios.emplace_back(call.seconds / expected, &call);
    }
    if (ratios.empty()) continue;
    const auto middle = ratios.begin() + static_cast<int64_t>(ratios.size() / 2);
    std::nth_element(ratios.begin(), middle, ratios.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    const Call& call = *middle->second;
    const double expected = cost.OpSeconds(*call.op, key.second, call.rows);
    cost.Correct(*call.op, key.second, call.rows, call.seconds / expected);
  }
  return cost;
}

}  // namespace lazytrain
