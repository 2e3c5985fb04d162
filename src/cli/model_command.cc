// lazytrain model: what config.json describes.
#include <cstdio>

#include "cli/command.h"
#include "core/error.h"
#include "model/family.h"
#include "report/model_table.h"

namespace lazytrain {
namespace {

class ModelCommand final : public Command {
 public:
  std::string_view name() const override { return "model"; }
  std::string_view help() const override {
    return "show DIR: units, values, ops and sizes of a model, from its config.json alone";
  }
  void Define(OptionList& options) override {
    options.Positional("action", action_, "show");
    options.Positional("folder", folder_, "Folder with a config.json");
    options.Text("dtype", dtype_, "float32 or bfloat16, of weights and values");
    options.Whole("sequence", sequence_, "Tokens a document, for FLOPs a token");
  }
  int Run() override {
    if (action_ != "show") {
      throw UsageError("model {}: there is no such action; write model show DIR", action_);
    }
    if (sequence_ < 1) throw UsageError("--sequence is {}; use a number above 0", sequence_);
    GraphOptions options;
    options.dtype = DTypeFromName(dtype_, "--dtype");
    if (options.dtype != DType::kF32 && options.dtype != DType::kBF16) {
      throw UsageError("--dtype is {}; use float32 or bfloat16", dtype_);
    }
    const ModelGraph model = BuildModelGraph(HubConfig::FromFolder(folder_), options);
    std::fputs(ModelTable(model, sequence_).c_str(), stdout);
    return 0;
  }

 private:
  std::string action_;
  std::string folder_;
  std::string dtype_ = "bfloat16";
  int64_t sequence_ = 1024;
};

}  // namespace

std::unique_ptr<Command> MakeModelCommand() { return std::make_unique<ModelCommand>(); }

}  // namespace lazytrain
