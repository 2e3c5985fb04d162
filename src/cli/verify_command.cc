// lazytrain verify: compares this engine with stored reference values.
#include <cstdio>

#include "cli/command.h"
#include "core/error.h"
#include "core/file.h"
#include "core/units.h"
#include "train/verify.h"

namespace lazytrain {
namespace {

class VerifyCommand final : public Command {
 public:
  std::string_view name() const override { return "verify"; }
  std::string_view help() const override {
    return "Compare this engine with stored reference values; exit 0 only inside tolerance";
  }

  void Define(OptionList& options) override {
    options.Positional("case", folder_,
                       "Folder of a reference case (config.json, expected.json, "
                       "model/io/grads.safetensors)");
    options.Text("device", options_.device, "cpu (the virtual accelerator) or cuda");
    options.Text("dtype", dtype_, "float32 or bfloat16");
    options.Text("schedule", options_.schedule, "resident, interval:K, or a schedule file");
    options.Text("json", json_, "Write the report to this file, too");
  }

  int Run() override {
    options_.case_folder = folder_;
    options_.dtype = DTypeFromName(dtype_, "--dtype");
    const VerifyReport report = Verify(options_);
    for (const VerifyMeasure& m : report.measures) {
      std::printf("%-13s %-4s worst %.3e, tolerance %.0e%s%s\n", m.name.c_str(),
                  m.ok() ? "ok" : "FAIL", m.error, m.tolerance, m.where.empty() ? "" : ", at ",
                  m.where.c_str());
    }
    std::printf("device arena %s\n", FormatBytes(report.arena_bytes).c_str());
    std::printf("bits: %s\n", report.bits.c_str());
    if (!json_.empty()) WriteFile(json_, report.ToJson().dump(2) + "\n");
    for (const VerifyMeasure& m : report.measures) {
      if (m.ok()) continue;
      std::fflush(stdout);
      throw RunError(
          "{}: {}: the error {:.3e} is beyond the tolerance {:.0e}{}{}; this engine or "
          "the reference is wrong",
          folder_, m.name, m.error, m.tolerance, m.where.empty() ? "" : ", at ", m.where);
    }
    return 0;
  }

 private:
  VerifyOptions options_;
  std::string folder_;
  std::string dtype_ = "float32";
  std::string json_;
};

}  // namespace

std::unique_ptr<Command> MakeVerifyCommand() { return std::make_unique<VerifyCommand>(); }

}  // namespace lazytrain
