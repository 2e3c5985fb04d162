// A subcommand: its options, and what it does. One file each beside this one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lazytrain {

// Collects a command's options; the parsing library stays behind it (options.cc).
class OptionList {
 public:
  virtual ~OptionList() = default;
  // `--name VALUE`; the target's value beforehand is the default shown in the help.
  virtual void Text(std::string_view name, std::string& target, std::string_view help,
                    bool required = false) = 0;
  virtual void Whole(std::string_view name, int64_t& target, std::string_view help,
                     bool required = false) = 0;
  virtual void Number(std::string_view name, double& target, std::string_view help,
                      bool required = false) = 0;
  virtual void Flag(std::string_view name, bool& target, std::string_view help) = 0;
  // Without a name, by place. `Rest` takes what is left.
  virtual void Positional(std::string_view name, std::string& target, std::string_view help) = 0;
  virtual void Rest(std::string_view name, std::vector<std::string>& target,
                    std::string_view help) = 0;
};

class Command {
 public:
  virtual ~Command() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view help() const = 0;
  virtual void Define(OptionList& options) = 0;
  // Returns the exit status; throws Error for one `error:` line.
  virtual int Run() = 0;
};

// Every command, in the order of the help.
std::vector<std::unique_ptr<Command>> AllCommands();

std::unique_ptr<Command> MakeSftCommand();
std::unique_ptr<Command> MakePlanCommand();
std::unique_ptr<Command> MakeEstimateCommand();
std::unique_ptr<Command> MakeProfileCommand();
std::unique_ptr<Command> MakeSimulateCommand();
std::unique_ptr<Command> MakeBenchCommand();
std::unique_ptr<Command> MakeVerifyCommand();
std::unique_ptr<Command> MakeGenerateCommand();
std::unique_ptr<Command> MakeTokenizeCommand();
std::unique_ptr<Command> MakeExportCommand();
std::unique_ptr<Command> MakeModelCommand();

}  // namespace lazytrain
