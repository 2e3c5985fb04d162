// lazytrain simulate: the predicted timeline of a step.
#include <fmt/core.h>

#include "cli/command.h"
#include "core/units.h"
#include "report/lane_table.h"
#include "report/trace.h"
#include "train/model_folder.h"
#include "train/run_plan.h"

namespace lazytrain {
namespace {

class SimulateCommand final : public Command {
 public:
  std::string_view name() const override { return "simulate"; }
  std::string_view help() const override {
    return "Predict the timeline of a full step from config.json and hardware numbers";
  }
  void Define(OptionList& options) override {
    options.Positional("config", config_, "Configuration file (YAML)");
    options.Rest("key=value", overrides_, "Settings that go before the file's");
    options.Text("schedule", schedule_, "solve, resident, interval, paper, or a schedule file");
    options.Text("trace", trace_, "Write a Chrome/Perfetto trace to this file");
  }
  int Run() override {
    if (!schedule_.empty()) overrides_.push_back("memory.schedule=" + schedule_);
    const Config config = LoadConfig(config_, overrides_, ConfigUse::kPlanning);
    const std::unique_ptr<Device> device = OpenDevice(config);
    const RunPlan plan = MakeRunPlan(
        config, HubConfig::FromFolder(FindModelFolder(config.model.name, "model.name")), *device);
    const Program& program = plan.programs->training();
    const StepTimeline timeline = Simulate(program, FullStep(program.capacity), plan.cost);
    fmt::print("step {}, device peak {} ({:.3f} of the lower bound), host {}\n",
               FormatSeconds(timeline.seconds), FormatBytes(plan.device_total()),
               static_cast<double>(program.peak_bytes[kDeviceSpace]) /
                   static_cast<double>(program.device_lower_bound),
               FormatBytes(plan.host_bytes()));
    fmt::print("{}", LaneTable(program, timeline, timeline));
    if (!trace_.empty()) WriteTrace(trace_, program, timeline, "predicted");
    return 0;
  }

 private:
  std::string config_;
  std::vector<std::string> overrides_;
  std::string schedule_;
  std::string trace_;
};

}  // namespace

std::unique_ptr<Command> MakeSimulateCommand() { return std::make_unique<SimulateCommand>(); }

}  // namespace lazytrain
