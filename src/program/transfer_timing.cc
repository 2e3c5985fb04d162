#include "program/transfer_timing.h"

#include <algorithm>
#include <map>
#include <utility>

#include "program/simulator.h"
#include "program/slot_memory.h"

namespace lazytrain {
namespace {

// The first slot at which a value that waits on the host may come back: where backward begins in
// the slot's pass.
std::vector<int> FirstReloads(const StagePlan& plan) {
  std::vector<int> first(plan.slots.size(), 0);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    const bool turns = stage.backward && (s == 0 || !plan.stages[s - 1].backward);
    for (int k = stage.first_slot; k < stage.first_slot + stage.slots; ++k) {
      first[k] = turns || s == 0 ? stage.first_slot : first[stage.first_slot - 1];
    }
  }
  return first;
}

// The first slot at which the gradients that a stage adds to are where they rest: after the last
// stage that made them.
std::vector<int> FirstGradients(const StagePlan& plan) {
  std::vector<int> first(plan.stages.size(), 0);
  std::map<std::pair<int, int>, size_t> last_made;  // stages, by segment and slot
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    for (const UnitUse& use : plan.stages[s].gradients) {
      const auto [made, is_new] = last_made.try_emplace({use.segment, use.slot}, s);
      if (!is_new) first[s] = std::max(first[s], plan.stages[made->second + 1].first_slot);
      made->second = s;
    }
  }
  return first;
}

struct SlotTimes {
  std::vector<double> begin;  // of each slot, and the end of the last
};

SlotTimes ComputeTimes(const StagePlan& plan, const std::vector<Demand>& demands,
                       const Program& program) {
  std::vector<double> seconds(plan.slots.size(), 0);
  for (size_t i = 0; i < demands.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (program.lanes[instruction.lane].kind != LaneKind::kCompute) continue;
    seconds[static_cast<size_t>(instruction.slot)] += demands[i].seconds;
  }
  SlotTimes times;
  double now = 0;
  for (const double slot : seconds) {
    times.begin.push_back(now);
    now += slot;
  }
  times.begin.push_back(now);
  return times;
}

int SlotAt(const SlotTimes& times, double seconds) {
  const auto after = std::upper_bound(times.begin.begin(), times.begin.end() - 1, seconds);
  return std::max<int>(0, static_cast<int>(after - times.begin.begin()) - 1);
}

// For each slot, when the transfers it wants must be issued; the slot itself if it wants none.
std::vector<int> LatestIssues(const SlotTimes& times, const std::vector<Demand>& demands,
                              const Program& program, double slack) {
  const size_t slots = times.begin.size() - 1;
  std::vector<double> wanted(slots, 0);
  for (size_t i = 0; i < demands.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (program.lanes[instruction.lane].kind != LaneKind::kHostToDevice) continue;
    wanted[static_cast<size_t>(instruction.wanted)] += demands[i].seconds;
  }
  std::vector<int> issues(slots);
  double start = times.begin.back();
  for (size_t k = slots; k-- > 0;) {
    start = std::min(times.begin[k], start) - slack * wanted[k];
    issues[k] = std::min(static_cast<int>(k), SlotAt(times, start));
  }
  return issues;
}

// For each slot, the one in which the last of what it sent off has arrived.
std::vector<int> Arrivals(const SlotTimes& times, const std::vector<Demand>& demands,
                          const Program& program, double slack) {
  const size_t slots = times.begin.size() - 1;
  std::vector<double> sent(slots, 0);
  for (size_t i = 0; i < demands.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (program.lanes[instruction.lane].kind != LaneKind::kDeviceToHost) continue;
    sent[static_cast<size_t>(instruction.slot)] += demands[i].seconds;
  }
  std::vector<int> arrivals(slots);
  double end = 0;
  for (size_t k = 0; k < slots; ++k) {
    end = std::max(end, times.begin[k + 1]) + slack * sent[k];
    arrivals[k] = std::max(static_cast<int>(k), SlotAt(times, end));
  }
  return arrivals;
}

// By slot: when what it wants is issued, and the slot at whose end what it sends off is free.
struct Moves {
  std::vector<int> issues;
  std::vector<int> arrivals;
};

// Brings issues and arrivals nearer to their slots, so that memory suffices. All get a slot more by
// turns, then two, four ...: a little room for everybody does more than much for a few.
void KeepWithin(int64_t device_bytes, SlotMemory memory, Moves& moves) {
  const auto slots = static_cast<int>(moves.issues.size());
  const Moves desired = moves;
  for (int k = 0; k < slots; ++k) moves.issues[k] = moves.arrivals[k] = k;
  std::vector<bool> full_before(slots, false);
  std::vector<bool> full_after(slots, false);
  for (int reach = 1; reach < 2 * slots; reach *= 2) {
    for (int k = 0; k < slots; ++k) {
      int& issue = moves.issues[k];
      while (!full_before[k] && issue > std::max(desired.issues[k], k - reach)) {
        full_before[k] = !memory.FetchBy(k, issue - 1, device_bytes);
        if (!full_before[k]) --issue;
      }
      int& arrival = moves.arrivals[k];
      while (!full_after[k] && arrival < std::min(desired.arrivals[k], k + reach)) {
        full_after[k] = !memory.KeepUntil(k, arrival + 1, device_bytes);
        if (!full_after[k]) ++arrival;
      }
    }
  }
}

}  // namespace

TransferTiming OneAhead(const StagePlan& plan) {
  TransferTiming timing;
  const std::vector<int> first_reloads = FirstReloads(plan);
  const std::vector<int> first_gradients = FirstGradients(plan);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    timing.weights.push_back(plan.stages[s == 0 ? 0 : s - 1].first_slot);
    timing.gradients.push_back(std::max(timing.weights.back(), first_gradients[s]));
  }
  for (int k = 0; k < static_cast<int>(plan.slots.size()); ++k) {
    timing.reloads.push_back(std::max(k - 1, first_reloads[k]));
    timing.holds.push_back(k + 1);
  }
  return timing;
}

TransferTiming JustInTime(const StagePlan& plan, const Program& program, const CostModel& cost,
                          double slack, int64_t device_bytes) {
  std::vector<Demand> demands;
  const StepRows rows = FullStep(program.capacity);
  for (const Instruction& instruction : program.instructions) {
    demands.push_back(DemandOf(program, instruction, rows, cost));
  }
  const SlotTimes times = ComputeTimes(plan, demands, program);
  Moves moves = {LatestIssues(times, demands, program, slack),
                 Arrivals(times, demands, program, slack)};
  const auto slots = static_cast<int>(plan.slots.size());
  KeepWithin(device_bytes, SlotMemory(program, slots), moves);

  TransferTiming timing;
  const std::vector<int> first_reloads = FirstReloads(plan);
  const std::vector<int> first_gradients = FirstGradients(plan);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    timing.weights.push_back(moves.issues[plan.stages[s].first_slot]);
    timing.gradients.push_back(std::max(timing.weights.back(), first_gradients[s]));
  }
  for (int k = 0; k < slots; ++k) {
    timing.reloads.push_back(std::max(moves.issues[k], first_reloads[k]));
  }
  timing.holds = moves.arrivals;
  return timing;
}

}  // namespace lazytrain
