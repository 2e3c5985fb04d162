#include "cli/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>

#include "cli/command.h"
#include "core/error.h"

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

int Parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return -1;
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
  } catch (const CLI::CallForVersion&) {
    std::fputs("lazytrain 0.1.0\n", stdout);
  } catch (const CLI::ParseError& error) {
    std::string text = error.what();
    std::replace(text.begin(), text.end(), '\n', ' ');
    std::fprintf(stderr, "error: %s; see lazytrain --help\n", text.c_str());
    return 2;
  }
  return 0;
}

int RunGuarded(Command& command) {
  try {
    return command.Run();
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exit_status();
  } catch (const std::bad_alloc&) {
    std::fputs("error: out of memory; lower the batch or the memory settings\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
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
