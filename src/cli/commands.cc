#include "cli/command.h"

namespace lazytrain {

std::vector<std::unique_ptr<Command>> AllCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(MakeVerifyCommand());
  return commands;
}

}  // namespace lazytrain
