#include "cli/command.h"

namespace lazytrain {

std::vector<std::unique_ptr<Command>> AllCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(MakeSftCommand());
  commands.push_back(MakePlanCommand());
  commands.push_back(MakeEstimateCommand());
  commands.push_back(MakeProfileCommand());
  commands.push_back(MakeSimulateCommand());
  commands.push_back(MakeBenchCommand());
  commands.push_back(MakeVerifyCommand());
  commands.push_back(MakeGenerateCommand());
  commands.push_back(MakeTokenizeCommand());
  commands.push_back(MakeExportCommand());
  commands.push_back(MakeModelCommand());
  return commands;
}

}  // namespace lazytrain
