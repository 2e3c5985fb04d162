#include "report/trace.h"

#include <utility>

#include "core/json.h"

namespace lazytrain {

void WriteTrace(const Path& path, const Program& program, const StepTimeline& timeline,
                const std::string& process) {
  Json events = Json::array();
  events.push_back(
      {{"ph", "M"}, {"pid", 1}, {"name", "process_name"}, {"args", {{"name", process}}}});
  for (size_t lane = 0; lane < program.lanes.size(); ++lane) {
    events.push_back({{"ph", "M"},
                      {"pid", 1},
                      {"tid", lane + 1},
                      {"name", "thread_name"},
                      {"args", {{"name", program.lanes[lane].name}}}});
  }
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const TimedSpan& span = timeline.spans[i];
    if (span.end <= span.start) continue;
    events.push_back({{"ph", "X"},
                      {"pid", 1},
                      {"tid", instruction.lane + 1},
                      {"name", instruction.name},
                      {"ts", span.start * 1e6},
                      {"dur", (span.end - span.start) * 1e6}});
  }
  for (const auto& [space, name] :
       {std::pair{kDeviceSpace, "device memory"}, std::pair{kHostSpace, "host memory"}}) {
    for (const MemoryPoint& point : MemoryCurve(program, timeline, space)) {
      events.push_back({{"ph", "C"},
                        {"pid", 1},
                        {"name", name},
                        {"ts", point.seconds * 1e6},
                        {"args", {{"bytes", point.bytes}}}});
    }
  }
  const Json trace = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  WriteFile(path, trace.dump() + "\n");
}

}  // namespace lazytrain
