// The program. Everything it does is in src/cli, one file a subcommand.
#include <cstdio>

#include "cli/cli.h"

int main(int argc, char** argv) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    std::fputs("error: this processor lacks AVX2 or FMA, which lazytrain is built for\n", stderr);
    return 1;
  }
  return lazytrain::RunCommandLine(argc, argv);
}
