// lazytrain profile: what this machine does a second.
#include <fmt/core.h>

#include "cli/command.h"
#include "core/file.h"
#include "train/profile_run.h"

namespace lazytrain {
namespace {

class ProfileCommand final : public Command {
 public:
  std::string_view name() const override { return "profile"; }
  std::string_view help() const override {
    return "Measure this machine: link, host memory, updates, matrix products, a model's ops, NVMe";
  }
  void Define(OptionList& options) override {
    options.Text("out", out_, "Write the profile to this file (for hardware.profile)");
    options.Text("model", options_.model, "Folder with a config.json: time its ops, too");
    options.Text("device", options_.device, "auto, cpu (the virtual accelerator) or cuda:0");
    options.Text("dtype", options_.dtype, "float32 or bfloat16, of weights and values");
    options.Whole("tokens", options_.tokens, "Tokens at once, for ops");
    options.Whole("seq", options_.sequence, "Tokens a document, for attention");
    options.Number("device-memory-gb", options_.device_memory_gb,
                   "Device memory to measure in (0: 16, on the virtual accelerator 2)");
    options.Text("nvme-dir", options_.nvme_dir, "Folder on the disk to measure");
    options.Number("nvme-gb", options_.nvme_gb, "Size of the file that is written there");
  }
  int Run() override {
    const MachineProfile profile = RunProfile(options_);
    if (out_.empty()) return 0;
    WriteFile(out_, profile.ToJson().dump(1) + "\n");
    fmt::print("written to {}\n", out_);
    return 0;
  }

 private:
  ProfileOptions options_;
  std::string out_;
};

}  // namespace

std::unique_ptr<Command> MakeProfileCommand() { return std::make_unique<ProfileCommand>(); }

}  // namespace lazytrain
