// Where the seconds of a step go, lane by lane.
#pragma once

#include <string>

#include "core/json.h"
#include "program/simulator.h"

namespace lazytrain {

// A table: for each lane its busy time and what it waited for, measured beside predicted.
std::string LaneTable(const Program& program, const StepTimeline& measured,
                      const StepTimeline& predicted);

// {"compute": {"busy": s, "idle": s, "stalled": {"h2d": s, ...}}, ...}
Json LanesToJson(const Program& program, const StepTimeline& timeline);

}  // namespace lazytrain
