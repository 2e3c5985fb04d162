// The command line: `lazytrain <command> ...`.
#pragma once

namespace lazytrain {

// Runs one command; returns the exit status (0 done, 1 failed, 2 wrong usage or configuration, 130
// stopped by a signal).
int RunCommandLine(int argc, char** argv);

}  // namespace lazytrain
