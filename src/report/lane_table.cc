#include "report/lane_table.h"

#include <fmt/core.h>

#include "core/units.h"

namespace lazytrain {
namespace {

std::string Stalls(const Program& program, const LaneTime& lane) {
  std::string text;
  for (size_t l = 0; l < lane.stalled.size(); ++l) {
    if (lane.stalled[l] <= 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", program.lanes[l].name,
                        FormatSeconds(lane.stalled[l]));
  }
  return text.empty() ? "-" : text;
}

}  // namespace

std::string LaneTable(const Program& program, const StepTimeline& measured,
                      const StepTimeline& predicted) {
  std::string table =
      fmt::format("{:<8} {:>10} {:>10}  {}\n", "lane", "busy", "predicted", "waited for");
  for (size_t l = 0; l < program.lanes.size(); ++l) {
    table += fmt::format(
        "{:<8} {:>10} {:>10}  {}\n", program.lanes[l].name, FormatSeconds(measured.lanes[l].busy),
        FormatSeconds(predicted.lanes[l].busy), Stalls(program, measured.lanes[l]));
  }
  table += fmt::format("{:<8} {:>10} {:>10}\n", "step", FormatSeconds(measured.seconds),
                       FormatSeconds(predicted.seconds));
  return table;
}

Json LanesToJson(const Program& program, const StepTimeline& timeline) {
  Json lanes = Json::object();
  for (size_t l = 0; l < program.lanes.size(); ++l) {
    const LaneTime& lane = timeline.lanes[l];
    Json stalled = Json::object();
    for (size_t cause = 0; cause < lane.stalled.size(); ++cause) {
      if (lane.stalled[cause] > 0) stalled[program.lanes[cause].name] = lane.stalled[cause];
    }
    lanes[program.lanes[l].name] = {
        {"busy", lane.busy}, {"idle", lane.idle}, {"stalled", std::move(stalled)}};
  }
  return lanes;
}

}  // namespace lazytrain
