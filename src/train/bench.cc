#include "train/bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
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

Json OpsToJson(const OpShares& shares, const OpShares& predicted) {
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
                   {"predicted_seconds", predicted.at(key).seconds},
                   {"share", share.seconds / total.seconds},
                   {"flops_share", share.flops / total.flops}});
  }
  std::sort(ops.begin(), ops.end(),
            [](const Json& a, const Json& b) { return a.at("share") > b.at("share"); });
  return ops;
}

void PrintOps(const Json& ops) {
  fmt::print("{:<14} {:<9} {:>10} {:>10} {:>8} {:>12}\n", "op", "", "seconds", "predicted", "share",
             "of FLOPs");
  for (const Json& op : ops) {
    fmt::print("{:<14} {:<9} {:>10} {:>10} {:>7.1f}% {:>11.1f}%\n", op.at("op").get<std::string>(),
               op.at("direction").get<std::string>(), FormatSeconds(op.at("seconds").get<double>()),
               FormatSeconds(op.at("predicted_seconds").get<double>()),
               100 * op.at("share").get<double>(), 100 * op.at("flops_share").get<double>());
  }
}

class Bench {
 public:
  Bench(const Config& config, const BenchOptions& options)
      : config_(config),
        options_(options),
        hub_(HubConfig::FromFolder(FindModelFolder(config.model.name, "--model"))),
        device_(OpenDevice(config)) {}

  Json Run() {
    Json result;
    for (const std::string& schedule : options_.schedules) {
      const bool first = result.is_null();
      Json row = One(schedule, first ? options_.steps : options_.baseline_steps);
      if (first) {
        result = std::move(row);
        result["baselines"] = Json::array();
      } else {
        result["baselines"].push_back(std::move(row));
      }
    }
    return result;
  }

 private:
  // Weights and states go on from schedule to schedule: making them takes longer than a step.
  std::unique_ptr<TrainingEngine> MakeEngine(const RunPlan& plan) {
    if (state_.store != nullptr) {
      return std::make_unique<TrainingEngine>(*device_, *plan.programs, plan.demand, plan.engine,
                                              std::move(state_));
    }
    auto engine =
        std::make_unique<TrainingEngine>(*device_, *plan.programs, plan.demand, plan.engine);
    engine->LoadWeights([&](const UnitSpec& unit, const UnitMemory& memory) {
      InitializeUnit(unit, static_cast<uint64_t>(config_.training.seed),
                     hub_.NumberOr("initializer_range", 0.02), memory);
    });
    return engine;
  }

  Json One(const std::string& schedule, int64_t steps) {
    config_.memory.schedule = schedule;
    const RunPlan plan = MakeRunPlan(config_, hub_, *device_);
    const std::unique_ptr<TrainingEngine> engine = MakeEngine(plan);
    const Program& program = plan.programs->training();
    const std::vector<MicroBatch> step =
        MakeFullStep(program.capacity, plan.programs->model().vocab_size, 1);
    std::vector<StepTimeline> measured;
    int64_t most_used = 0;
    for (int64_t i = 0; i < options_.warmup + steps; ++i) {
      StepTimeline timeline = engine->Step(step, config_.training.learning_rate).timeline;
      if (i >= options_.warmup) measured.push_back(std::move(timeline));
      most_used = std::max(most_used, device_->UsedBytes());
    }
    Json row = Describe(plan, *engine, RowsOf(step), measured, most_used);
    state_ = engine->Leave();
    return row;
  }

  // The step whose time is closest to the median.
  static const StepTimeline& Typical(const std::vector<StepTimeline>& measured, double median) {
    return *std::min_element(measured.begin(), measured.end(),
                             [&](const StepTimeline& a, const StepTimeline& b) {
                               return std::abs(a.seconds - median) < std::abs(b.seconds - median);
                             });
  }

  static Json Describe(const RunPlan& plan, const TrainingEngine& engine, const StepRows& rows,
                       const std::vector<StepTimeline>& measured, int64_t held) {
    const Program& program = plan.programs->training();
    double tokens = 0;
    for (const RowCounts& batch : rows) tokens += static_cast<double>(batch.tokens);
    const StepTimeline predicted = Simulate(program, rows, plan.cost);
    std::vector<double> seconds;
    seconds.reserve(measured.size());
    for (const StepTimeline& step : measured) seconds.push_back(step.seconds);
    const double median = Median(seconds);
    const StepTimeline& typical = Typical(measured, median);
    const OpShares expected = SharesOf(program, predicted, rows);
    Json json = {
        {"tokens_per_second", tokens / median},
        {"tflops", TrainingTflops(plan.programs->model().ParameterCount(), tokens / median)},
        {"step_seconds", median},
        {"predicted_step_seconds", predicted.seconds},
        {"steps", seconds.size()},
        {"hardware", plan.cost_origin},
        {"schedule", plan.programs->schedule().name},
        {"passes", plan.programs->schedule().passes},
        {"micro_batch_tokens", program.capacity.micro_batch_tokens},
        {"device_bytes", plan.device_total()},
        {"device_bytes_arena", plan.device_bytes()},
        {"device_bytes_used", engine.device_bytes_used()},
        {"device_bytes_driver", held},
        {"host_bytes", plan.programs->PeakBytes(kHostSpace)},
        {"store_bytes", plan.programs->PeakBytes(kStoreSpace)},
        {"arena_over_lower_bound", static_cast<double>(program.peak_bytes[kDeviceSpace]) /
                                       static_cast<double>(program.device_lower_bound)},
        {"lanes", LanesToJson(program, typical)},
        {"ops", OpsToJson(SharesOf(program, typical, rows), expected)}};
    fmt::print(
        "{}: {:.0f} tokens/s, {:.4f} TFLOPS; step {} (median of {}), {} predicted ({:+.1f}%)\n",
        plan.programs->schedule().name, tokens / median, json["tflops"].get<double>(),
        FormatSeconds(median), seconds.size(), FormatSeconds(predicted.seconds),
        100 * (predicted.seconds - median) / median);
    const size_t passes = plan.programs->schedule().passes.size();
    fmt::print("{} pass{}, micro-batches of {} tokens; hardware {}\n", passes,
               passes == 1 ? "" : "es", program.capacity.micro_batch_tokens, plan.cost_origin);
    fmt::print("device {} planned, {}; host {}; arena {:.3f} of the lower bound\n",
               FormatBytes(plan.device_total()),
               held > 0 ? fmt::format("{} held by the process at most", FormatBytes(held))
                        : fmt::format("{} used", FormatBytes(engine.device_bytes_used())),
               FormatBytes(plan.host_bytes()), json["arena_over_lower_bound"].get<double>());
    fmt::print("{}", LaneTable(program, typical, predicted));
    PrintOps(json["ops"]);
    std::fflush(stdout);
    return json;
  }

  Config config_;
  const BenchOptions& options_;
  HubConfig hub_;
  std::unique_ptr<Device> device_;
  TrainingState state_;
};

}  // namespace

Json RunBench(const Config& config, const BenchOptions& options) {
  return Bench(config, options).Run();
}

}  // namespace lazytrain
