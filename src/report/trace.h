// Timelines as Chrome/Perfetto traces (the JSON array format): one row a lane, one slice an
// instruction, and the memory in use as counters; predicted and measured steps use the same names.
#pragma once

#include <string>

#include "core/file.h"
#include "program/simulator.h"

namespace lazytrain {

// `process`: what the trace calls the run, as in "predicted" or "measured, step 7".
void WriteTrace(const Path& path, const Program& program, const StepTimeline& timeline,
                const std::string& process);

}  // namespace lazytrain
