// lazytrain sft: the main job.
#include "cli/command.h"
#include "train/sft.h"

namespace lazytrain {
namespace {

class SftCommand final : public Command {
 public:
  std::string_view name() const override { return "sft"; }
  std::string_view help() const override {
    return "Fine-tune a model: plan, train, export (keys: docs/configuration.md)";
  }
  void Define(OptionList& options) override {
    options.Positional("config", config_, "Configuration file (YAML)");
    options.Rest("key=value", overrides_,
                 "Settings that go before the file's, as training.batch_size=8");
  }
  int Run() override { return RunSft(LoadConfig(config_, overrides_)); }

 private:
  std::string config_;
  std::vector<std::string> overrides_;
};

}  // namespace

std::unique_ptr<Command> MakeSftCommand() { return std::make_unique<SftCommand>(); }

}  // namespace lazytrain
