// lazytrain bench: training steps on random weights and tokens.
#include <fmt/core.h>

#include <sstream>

#include "cli/command.h"
#include "core/error.h"
#include "train/bench.h"

namespace lazytrain {
namespace {

class BenchCommand final : public Command {
 public:
  std::string_view name() const override { return "bench"; }
  std::string_view help() const override {
    return "Time training steps on random weights and tokens, from a config.json alone";
  }
  void Define(OptionList& options) override {
    options.Text("model", model_, "Folder with a config.json", true);
    options.Whole("batch", batch_, "Examples a step", true);
    options.Whole("seq", seq_, "Tokens an example", true);
    options.Rest("key=value", overrides_, "Settings, as memory.schedule=resident");
    options.Number("device-memory-gb", device_gb_, "Cap on device memory (0: the default)");
    options.Number("host-memory-gb", host_gb_, "Host memory there is (0: what the system says)");
    options.Text(
        "schedule", schedule_,
        "solve, resident, interval, paper, or a schedule file; several with commas between: "
        "one after the other on the same weights");
    options.Whole("steps", options_.steps, "Steps that count");
    options.Whole("baseline-steps", options_.baseline_steps,
                  "Steps that count of schedules after the first");
    options.Whole("warmup", options_.warmup, "Steps before them, for each schedule");
    options.Text("json", json_, "Write the result to this file, too");
  }
  int Run() override {
    std::vector<std::string> settings = {"model.name=" + model_,
                                         fmt::format("training.batch_size={}", batch_),
                                         fmt::format("dataset.max_seq_len={}", seq_)};
    if (device_gb_ != 0) settings.push_back(fmt::format("memory.device_memory_gb={}", device_gb_));
    if (host_gb_ != 0) settings.push_back(fmt::format("memory.host_memory_gb={}", host_gb_));
    std::istringstream schedules(schedule_);
    for (std::string schedule; std::getline(schedules, schedule, ',');) {
      if (!schedule.empty()) options_.schedules.push_back(schedule);
    }
    if (!options_.schedules.empty()) {
      settings.push_back("memory.schedule=" + options_.schedules.front());
    }
    settings.insert(settings.end(), overrides_.begin(), overrides_.end());
    if (options_.steps < 1) throw UsageError("--steps: is {}; use 1 or more", options_.steps);
    if (options_.baseline_steps < 1) {
      throw UsageError("--baseline-steps: is {}; use 1 or more", options_.baseline_steps);
    }
    if (options_.warmup < 0) throw UsageError("--warmup: is {}; use 0 or more", options_.warmup);
    const Config config = ConfigFromOverrides(settings);
    if (options_.schedules.empty()) options_.schedules = {config.memory.schedule};
    const Json result = RunBench(config, options_);
    if (!json_.empty()) WriteFile(json_, result.dump(2) + "\n");
    return 0;
  }

 private:
  BenchOptions options_;
  std::string model_;
  std::vector<std::string> overrides_;
  std::string schedule_;
  std::string json_;
  int64_t batch_ = 8;
  int64_t seq_ = 1024;
  double device_gb_ = 0;
  double host_gb_ = 0;
};

}  // namespace

std::unique_ptr<Command> MakeBenchCommand() { return std::make_unique<BenchCommand>(); }

}  // namespace lazytrain
