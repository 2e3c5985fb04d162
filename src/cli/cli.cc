#include "cli/cli.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "core/error.h"
#include "core/nearest.h"
#include "data/tokenizer/utf8.h"

namespace lazytrain {
namespace {

class Cli11Options final : public OptionList {
 public:
  explicit Cli11Options(CLI::App& app) : app_(app) {}

  void Text(std::string_view name, std::string& target, std::string_view help,
            bool required) override {
    Add(name, target, help, required);
  }
  void Whole(std::string_view name, int64_t& target, std::string_view help,
             bool required) override {
    Add(name, target, help, required);
  }
  void Number(std::string_view name, double& target, std::string_view help,
              bool required) override {
    Add(name, target, help, required);
  }
  void Flag(std::string_view name, bool& target, std::string_view help) override {
    app_.add_flag("--" + std::string(name), target, std::string(help));
  }
  void Positional(std::string_view name, std::string& target, std::string_view help) override {
    app_.add_option(std::string(name), target, std::string(help))->required();
  }
  void Rest(std::string_view name, std::vector<std::string>& target,
            std::string_view help) override {
    app_.add_option(std::string(name), target, std::string(help));
  }

 private:
  template <typename T>
  void Add(std::string_view name, T& target, std::string_view help, bool required) {
    CLI::Option* option = app_.add_option("--" + std::string(name), target, std::string(help));
    if (required) {
      option->required();
    } else {
      option->capture_default_str();
    }
  }

  CLI::App& app_;
};

// One line whatever the message quotes: names and texts come from anywhere.
void PrintError(std::string_view message) {
  int64_t replaced = 0;
  std::string line = RepairUtf8(message, replaced);
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  std::fprintf(stderr, "error: %s\n", line.c_str());
}

std::string Nearest(std::string_view word, const std::vector<std::string>& names) {
  const std::vector<std::string> nearest = NearestNames(word, names, 1);
  const bool near = !nearest.empty() && 2 * EditDistance(word, nearest[0]) <= word.size();
  return near ? fmt::format(" (did you mean '{}'?)", nearest[0]) : "";
}

std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// What the first word that nothing expects means; empty when there is none. The library complains
// of what is missing first, which is often only the consequence.
std::string DescribeUnknown(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const CLI::App& asked = chosen.empty() ? app : *chosen[0];
  const std::vector<std::string> words = asked.remaining();
  if (words.empty()) return "";
  const std::string& word = words[0];
  if (word.starts_with('-')) {
    return fmt::format("there is no option '{}'{}", word, Nearest(word, OptionNames(asked)));
  }
  if (!chosen.empty()) {
    return fmt::format("'{}' is one word too many; put texts with spaces in quotes", word);
  }
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return fmt::format("there is no command '{}'{}", word, Nearest(word, names));
}

int RefuseCommandLine(const CLI::App& app, const CLI::ParseError& error) {
  const bool may_be_unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
                              dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  std::string text = may_be_unknown ? DescribeUnknown(app) : "";
  if (text.empty()) text = error.what();
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  const std::string command = chosen.empty() ? "" : chosen[0]->get_name() + " ";
  PrintError(fmt::format("{}; see lazytrain {}--help", text, command));
  return 2;
}

int Parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return -1;
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
  } catch (const CLI::CallForVersion&) {
    std::fputs("lazytrain 0.1.0\n", stdout);
  } catch (const CLI::ParseError& error) {
    return RefuseCommandLine(app, error);
  }
  return 0;
}

int RunGuarded(Command& command) {
  try {
    const int status = command.Run();
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
    PrintError("standard output: cannot be written; free some space there or send it elsewhere");
  } catch (const Error& error) {
    PrintError(error.what());
    return error.exit_status();
  } catch (const std::bad_alloc&) {
    PrintError("out of memory; lower the batch or the memory settings");
  } catch (const std::exception& error) {
    PrintError(error.what());
  }
  return 1;
}

}  // namespace

int RunCommandLine(int argc, char** argv) {
  CLI::App app{"Fine-tunes every parameter of a language model larger than the device's memory."};
  app.name("lazytrain");
  app.set_version_flag("--version", "0.1.0");
  app.require_subcommand(1);
  const std::vector<std::unique_ptr<Command>> commands = AllCommands();
  std::vector<std::unique_ptr<Cli11Options>> options;
  std::vector<CLI::App*> apps;
  for (const auto& command : commands) {
    apps.push_back(app.add_subcommand(std::string(command->name()), std::string(command->help())));
    options.push_back(std::make_unique<Cli11Options>(*apps.back()));
    command->Define(*options.back());
  }
  if (const int status = Parse(app, argc, argv); status >= 0) return status;
  for (size_t i = 0; i < commands.size(); ++i) {
    if (apps[i]->parsed()) return RunGuarded(*commands[i]);
  }
  return 2;
}

}  // namespace lazytrain
