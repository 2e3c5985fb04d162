#include "cli/cli.h"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "core/error.h"

namespace lazytrain {

int RunCommandLine(int argc, char** argv) {
  CLI::App app{"Fine-tunes every parameter of a model larger than the device's memory."};
  app.require_subcommand(1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return error.exit_status();
  }
  return 0;
}

}  // namespace lazytrain
