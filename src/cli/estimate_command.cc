// lazytrain estimate: what a machine that is not there would do with a model.
#include <fmt/core.h>

#include <cstdio>

#include "cli/command.h"
#include "core/file.h"
#include "train/estimate.h"

namespace lazytrain {
namespace {

class EstimateCommand final : public Command {
 public:
  std::string_view name() const override { return "estimate"; }
  std::string_view help() const override {
    return "Does a model fit, with what memory, at what speed: from config.json and numbers alone";
  }
  void Define(OptionList& options) override {
    options.Text("model", options_.model, "Folder with a config.json", true);
    options.Number("gpu-memory-gb", options_.gpu_memory_gb, "Device memory, all of it", true);
    options.Number("cpu-memory-budget-gb", options_.cpu_memory_gb, "Host memory to use", true);
    options.Number("h2d-bandwidth-gbps", options_.h2d_gbps,
                   "Host to device, GB/s (0: of the profile)");
    options.Number("d2h-bandwidth-gbps", options_.d2h_gbps,
                   "Device to host, GB/s (0: of the profile)");
    options.Number("host-bandwidth-gbps", options_.host_gbps,
                   "Host memory, GB/s (0: of the profile, or a guess)");
    options.Number("gemm-tflops", options_.gemm_tflops,
                   "Matrix products, TFLOP/s (0: of the profile, or a guess)");
    options.Number("nvme-gb", options_.nvme_gb, "NVMe there is; not executed yet, so only noted");
    options.Text("profile", options_.profile, "A file from lazytrain profile");
    options.Whole("batch", options_.batch,
                  "Examples a step (0: look for one, and for the largest)");
    options.Whole("seq", options_.sequence, "Tokens an example");
    options.Text("json", json_, "Write the answer to this file, too");
  }
  int Run() override {
    const Estimate estimate = MakeEstimate(options_);
    std::fputs(EstimateText(estimate).c_str(), stdout);
    if (!json_.empty()) WriteFile(json_, EstimateToJson(estimate).dump(2) + "\n");
    return 0;
  }

 private:
  EstimateOptions options_;
  std::string json_;
};

}  // namespace

std::unique_ptr<Command> MakeEstimateCommand() { return std::make_unique<EstimateCommand>(); }

}  // namespace lazytrain
