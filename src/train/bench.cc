#include "train/bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/units.h"
#include "report/lane_table.h"
#include "train/model_folder.h"
#include "train/run_plan.h"
#include "train/throughput.h"

namespace lazytrain {
namespace {

struct OpShare {
  double seconds = 0;
  double flops = 0;
};

using OpShares = std::map<std::pair<std::string, Direction>, OpShare>;

// Seconds and FLOPs by op, over one step.
OpShares SharesOf(const Program& program, const StepTimeline& timeline, const StepRows& rows) {
  OpShares shares;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const auto* action = std::get_if<OpAction>(&program.instructions[i].action);
    const InstructionRows sizes = RowsOf(program.instructions[i], rows);
    if (action == nullptr || sizes.skipped) continue;
    OpShare& share = shares[{std::string(action->op->type()), action->direction}];
    share.seconds += timeline.spans[i].end - timeline.spans[i].start;
    share.flops += action->op->Cost(action->direction, sizes.rows).flops;
  }
  return shares;
}

Json OpsToJson(const OpShares& shares) {
  OpShare total;
  for (const auto& [key, share] : shares) {
    total.seconds += share.seconds;
    total.flops += share.flops;
  }
  Json ops = Json::array();
  for (const auto& [key, share] : shares) {
    ops.push_back({{"op", key.first},
                   {"direction", key.second == Direction::kForward ? "forward" : "backward"},
                   {"seconds", share.seconds},
                   {"share", share.seconds / total.seconds},
                   {"flops_share", share.flops / total.flops}});
  }
  std::sort(ops.begin(), ops.end(),
            [](const Json& a, const Json& b) { return a.at("share") > b.at("share"); });
  return ops;
}

void PrintOps(const Json& ops) {
  fmt::print("{:<14} {:<9} {:>10} {:>8} {:>12}\n", "op", "", "seconds", "share", "of FLOPs");
  for (const Json& op : ops) {
    fmt::print("{:<14} {:<9} {:>10} {:>7.1f}% {:>11.1f}%\n", op.at("op").get<std::string>(),
               op.at("direction").get<std::string>(), FormatSeconds(op.at("seconds").get<double>()),
               100 * op.at("share").get<double>(), 100 * op.at("flops_share").get<double>());
  }
}

}  // namespace

Json RunBench(const Config& config, const BenchOptions& options) {
  const Path folder = FindModelFolder(config.model.name, "--model");
  const HubConfig hub = HubConfig::FromFolder(folder);
  const std::unique_ptr<Device> device = OpenDevice(config);
  const RunPlan plan = MakeRunPlan(config, hub, *device);
  const Program& program = plan.programs->training();
  TrainingEngine engine(*device, *plan.programs, plan.demand, plan.engine);
  engine.LoadWeights([&](const UnitSpec& unit, const UnitMemory& memory) {
    InitializeUnit(unit, static_cast<uint64_t>(config.training.seed),
                   hub.NumberOr("initializer_range", 0.02), memory);
  });
  const std::vector<MicroBatch> step =
      MakeFullStep(program.capacity, plan.programs->model().vocab_size, 1);
  const StepRows rows = RowsOf(step);
  double tokens = 0;
  for (const RowCounts& batch : rows) tokens += static_cast<double>(batch.tokens);
  std::vector<double> seconds;
  StepTimeline last;
  for (int64_t i = 0; i < options.warmup + options.steps; ++i) {
    last = engine.Step(step, config.training.learning_rate).timeline;
    if (i >= options.warmup) seconds.push_back(last.seconds);
  }
  engine.Drain();
  const StepTimeline predicted = Simulate(program, rows, plan.cost);
  const double median = Median(seconds);

  Json json = {{"tokens_per_second", tokens / median},
               {"tflops", TrainingTflops(plan.programs->model().ParameterCount(), tokens / median)},
               {"step_seconds", median},
               {"predicted_step_seconds", predicted.seconds},
               {"steps", options.steps},
               {"hardware", plan.cost_origin},
               {"schedule", plan.programs->schedule().name},
               {"device_bytes", plan.device_bytes()},
               {"device_bytes_used", engine.device_bytes_used()},
               {"device_bytes_driver", device->UsedBytes()},
               {"host_bytes", plan.programs->PeakBytes(kHostSpace)},
               {"store_bytes", plan.programs->PeakBytes(kStoreSpace)},
               {"arena_over_lower_bound", static_cast<double>(program.peak_bytes[kDeviceSpace]) /
                                              static_cast<double>(program.device_lower_bound)},
               {"lanes", LanesToJson(program, last)},
               {"ops", OpsToJson(SharesOf(program, last, rows))}};
  fmt::print("{:.0f} tokens/s, {:.4f} TFLOPS; step {} (median of {}), {} predicted\n",
             tokens / median, json["tflops"].get<double>(), FormatSeconds(median), options.steps,
             FormatSeconds(predicted.seconds));
  fmt::print("hardware {}\n", plan.cost_origin);
  fmt::print("device {} planned, {} used; host {}; arena {:.3f} of the lower bound\n",
             FormatBytes(plan.device_bytes()), FormatBytes(engine.device_bytes_used()),
             FormatBytes(plan.host_bytes()), json["arena_over_lower_bound"].get<double>());
  fmt::print("{}", LaneTable(program, last, predicted));
  PrintOps(json["ops"]);
  return json;
}

}  // namespace lazytrain
