#include "report/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/units.h"
#include "report/kind_name.h"
#include "report/lane_table.h"

namespace lazytrain {
namespace {

struct GroupRow {
  std::array<int, 4> tiers = {};
  double bytes = 0;  // of one micro-batch and layer
};

// How many layers of each kind keep each group where.
std::string TierTable(const PlanReport& report) {
  const SegmentChain& chain = report.model->loss;
  const RowCounts rows = report.program->capacity.MicroBatchRows();
  std::vector<std::pair<std::string, std::string>> order;
  std::map<std::pair<std::string, std::string>, GroupRow> table;
  for (size_t s = 0; s < chain.size(); ++s) {
    const std::vector<ValueGroup>& groups = chain[s].graph->groups;
    for (size_t g = 0; g < groups.size(); ++g) {
      const std::pair<std::string, std::string> key = {KindOf(chain[s].name), groups[g].name};
      if (!table.contains(key)) order.push_back(key);
      GroupRow& row = table[key];
      ++row.tiers[static_cast<size_t>(report.schedule->segments[s].tiers[g])];
      row.bytes = 0;
      for (const int value : groups[g].values) {
        row.bytes += static_cast<double>(chain[s].graph->values[value].Bytes(rows));
      }
    }
  }
  std::string text =
      fmt::format("{:<24} {:>8} {:>6} {:>6} {:>10}  {}\n", "value (layers that keep it)", "device",
                  "host", "nvme", "recompute", "a micro-batch");
  for (const auto& key : order) {
    const GroupRow& row = table[key];
    text += fmt::format("{:<28} {:>4} {:>6} {:>6} {:>10}  {}\n", key.first + " " + key.second,
                        row.tiers[0], row.tiers[1], row.tiers[2], row.tiers[3],
                        FormatBytes(static_cast<int64_t>(row.bytes)));
  }
  return text;
}

std::string UnitLine(const Schedule& schedule) {
  const auto count = [&](auto holds) {
    return std::count_if(schedule.units.begin(), schedule.units.end(), holds);
  };
  return fmt::format(
      "units {}: weights resident {}, gradients resident {}, states on the device {}, updated on "
      "the device {}\n",
      schedule.units.size(), count([](const UnitPlan& u) { return u.weights_resident; }),
      count([](const UnitPlan& u) { return u.accumulator_resident; }),
      count([](const UnitPlan& u) { return u.states == Tier::kDevice; }),
      count([](const UnitPlan& u) { return u.update == UpdatePlace::kDevice; }));
}

// "4", or the micro-batches of each where they differ by more than rounding: "5+2+2".
std::string PassesText(const std::vector<int64_t>& passes) {
  const auto [least, most] = std::minmax_element(passes.begin(), passes.end());
  if (*most - *least <= 1) return std::to_string(passes.size());
  return fmt::format("{}", fmt::join(passes, "+"));
}

// Number of passes and micro-batch size with the bound of each, the best first.
std::string CandidateTable(const PlanResult& plan) {
  std::string text = fmt::format("{:>6} {:>12} {:>12} {:>12}\n", "passes", "micro-batch",
                                 "no less than", "solved");
  size_t shown = 0;
  for (const PlanCandidate& candidate : plan.candidates) {
    if (!candidate.feasible || ++shown > 8) break;
    text += fmt::format("{:>6} {:>12} {:>12} {:>12}\n", PassesText(candidate.passes),
                        candidate.capacity.micro_batch_tokens, FormatSeconds(candidate.bound),
                        candidate.seconds > 0 ? FormatSeconds(candidate.seconds) : "ruled out");
  }
  return text +
         fmt::format("{} combinations of passes and micro-batch tried\n", plan.candidates.size());
}

// The cause of most standing still of the compute lane; empty if there is next to none.
std::string MainStall(const PlanReport& report) {
  const LaneTime& compute = report.timeline->lanes[kComputeLane];
  size_t worst = 0;
  for (size_t lane = 0; lane < compute.stalled.size(); ++lane) {
    if (compute.stalled[lane] > compute.stalled[worst]) worst = lane;
  }
  if (compute.stalled[worst] < 0.005 * report.timeline->seconds) return "";
  return report.program->lanes[worst].name;
}

}  // namespace

double RecomputeSeconds(const Program& program, const StepTimeline& timeline) {
  double seconds = 0;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (!program.instructions[i].name.starts_with("recompute ")) continue;
    seconds += timeline.spans[i].end - timeline.spans[i].start;
  }
  return seconds;
}

std::string Explain(const PlanReport& report) {
  const double step = report.timeline->seconds;
  const double busy = report.timeline->lanes[kComputeLane].busy;
  const std::string stall = MainStall(report);
  std::string text =
      stall.empty()
          ? fmt::format("Compute is busy {:.1f}% of the step", 100 * busy / step)
          : fmt::format("Compute is busy {:.1f}% of the step and waits most for {}",
                        100 * busy / step, stall == "host" ? "updates on the host" : stall);
  if (report.recompute_seconds > 0.005 * step) {
    text += fmt::format("; {:.1f}% of the step computes again what memory could not hold",
                        100 * report.recompute_seconds / step);
  }
  text += ".";
  for (const ResourcePrice& price : report.prices) {
    text += fmt::format(" {} would save {}.", price.resource,
                        price.seconds > 1e-4 * step ? FormatSeconds(price.seconds) : "nothing");
  }
  return text;
}

std::string PlanTable(const PlanReport& report) {
  const Schedule& schedule = *report.schedule;
  std::string text =
      fmt::format("{}: {:.2f} B parameters, a step of {:.0f} tokens\n", report.title,
                  static_cast<double>(report.model->ParameterCount()) / 1e9, report.tokens);
  text += fmt::format("schedule {}: {} pass{} of {} micro-batches of {} tokens\n", schedule.name,
                      schedule.passes.size(), schedule.passes.size() == 1 ? "" : "es",
                      fmt::join(schedule.passes, "+"), schedule.micro_batch_tokens);
  text +=
      fmt::format("predicted step {}, {:.0f} tokens/s, {} of it recomputation\n",
                  FormatSeconds(report.timeline->seconds), report.tokens / report.timeline->seconds,
                  FormatSeconds(report.recompute_seconds));
  text += fmt::format("device {} of {}, host {} activations + {} weights and states\n",
                      FormatBytes(report.device_bytes),
                      FormatBytes(static_cast<int64_t>(report.device_cap)),
                      FormatBytes(report.activation_bytes), FormatBytes(report.store_bytes));
  if (report.plan != nullptr && report.plan->feasible) {
    text +=
        fmt::format("planner: {}, no schedule below {}: gap {:.2f}%, {} to solve{}\n",
                    FormatSeconds(report.plan->estimate.seconds), FormatSeconds(report.plan->bound),
                    100 * report.plan->gap(), FormatSeconds(report.plan->solve_seconds),
                    report.plan->time_ended ? "; the time limit ended the search" : "");
  }
  const auto add = [&](const std::string& part) {
    text += part;
    text += '\n';
  };
  text += '\n';
  text += TierTable(report);
  add(UnitLine(schedule));
  if (report.plan != nullptr && report.plan->feasible) add(CandidateTable(*report.plan));
  add(LaneTable(*report.program, *report.timeline, *report.timeline));
  add(Explain(report));
  return text;
}

}  // namespace lazytrain
