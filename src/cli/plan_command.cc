// lazytrain plan: solve and explain the schedule of a run, without training.
#include <fmt/core.h>

#include "cli/command.h"
#include "core/file.h"
#include "train/model_folder.h"
#include "train/plan_explain.h"
#include "train/run_plan.h"

namespace lazytrain {
namespace {

class PlanCommand final : public Command {
 public:
  std::string_view name() const override { return "plan"; }
  std::string_view help() const override {
    return "Solve and explain the schedule of a run without training; needs only config.json";
  }
  void Define(OptionList& options) override {
    options.Positional("config", config_, "Configuration file (YAML)");
    options.Rest("key=value", overrides_, "Settings that go before the file's");
    options.Text("out", out_, "Write the schedule to this file");
    options.Text("report", report_, "Write a page that explains the plan to this file (HTML)");
  }
  int Run() override {
    const Config config = LoadConfig(config_, overrides_, ConfigUse::kPlanning);
    const std::unique_ptr<Device> device = OpenDevice(config);
    const RunPlan plan = MakeRunPlan(
        config, HubConfig::FromFolder(FindModelFolder(config.model.name, "model.name")), *device);
    const ExplainedPlan explained(config, plan);
    fmt::print("{}", PlanTable(explained.report()));
    fmt::print("hardware numbers: {}\n", plan.cost_origin);
    if (!out_.empty()) {
      WriteFile(out_,
                DescribePlan(plan, plan.cost, explained.report().timeline->seconds).dump(2) + "\n");
    }
    if (!report_.empty()) WriteFile(report_, PlanPage(explained.report()));
    return 0;
  }

 private:
  std::string config_;
  std::vector<std::string> overrides_;
  std::string out_;
  std::string report_;
};

}  // namespace

std::unique_ptr<Command> MakePlanCommand() { return std::make_unique<PlanCommand>(); }

}  // namespace lazytrain
