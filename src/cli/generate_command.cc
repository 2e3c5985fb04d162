// lazytrain generate: text from a model.
#include <cstdio>

#include "cli/command.h"
#include "train/generate.h"

namespace lazytrain {
namespace {

class GenerateCommand final : public Command {
 public:
  std::string_view name() const override { return "generate"; }
  std::string_view help() const override { return "Continue a prompt, greedily"; }
  void Define(OptionList& options) override {
    options.Text("model", options_.model, "Folder of a model", true);
    options.Text("prompt", options_.prompt, "Text to continue", true);
    options.Whole("max-new-tokens", options_.max_new_tokens, "Tokens to make at most");
    options.Number("device-memory-gb", options_.device_memory_gb,
                   "Cap on device memory; layers stream through it if need be (0: none)");
    options.Text("device", options_.device, "cpu (the virtual accelerator) or cuda");
  }
  int Run() override {
    std::printf("%s\n", Generate(options_).text.c_str());
    return 0;
  }

 private:
  GenerateOptions options_;
};

}  // namespace

std::unique_ptr<Command> MakeGenerateCommand() { return std::make_unique<GenerateCommand>(); }

}  // namespace lazytrain
