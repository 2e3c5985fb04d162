// lazytrain export: a hub-layout model folder from a run.
#include <cstdio>

#include "cli/command.h"
#include "core/error.h"
#include "train/export.h"

namespace lazytrain {
namespace {

class ExportCommand final : public Command {
 public:
  std::string_view name() const override { return "export"; }
  std::string_view help() const override { return "Write a run's model as a hub folder"; }
  void Define(OptionList& options) override {
    options.Positional("run", run_, "Folder of a run (training.output_dir)");
    options.Text("out", out_, "Folder to make", true);
  }
  int Run() override {
    if (out_.empty()) throw UsageError("--out: is empty; give the folder to make");
    const Path source = Path(run_) / "export";
    if (!std::filesystem::is_directory(source)) {
      throw RunError("{}: holds no export/; give the folder of a run that has ended", run_);
    }
    CopyModelFolder(source, out_);
    std::printf("%s\n", out_.c_str());
    return 0;
  }

 private:
  std::string run_;
  std::string out_;
};

}  // namespace

std::unique_ptr<Command> MakeExportCommand() { return std::make_unique<ExportCommand>(); }

}  // namespace lazytrain
