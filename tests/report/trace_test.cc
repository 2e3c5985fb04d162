#include "report/trace.h"

#include <gtest/gtest.h>

#include "core/json.h"
#include "report/lane_table.h"
#include "tests/temp_folder.h"

namespace lazytrain {
namespace {

TEST(Trace, HasARowALaneAndASliceAnInstruction) {
  Program program;
  program.lanes = {{"compute", LaneKind::kCompute}, {"h2d", LaneKind::kHostToDevice}};
  program.instructions.resize(3);
  program.instructions[0].name = "fetch a";
  program.instructions[0].lane = 1;
  program.instructions[1].name = "forward a";
  program.instructions[1].waits = {0};
  program.instructions[2].name = "skipped";
  const StepTimeline timeline = SummarizeTimeline(program, {{0.0, 0.5}, {0.5, 2.0}, {2.0, 2.0}});
  EXPECT_DOUBLE_EQ(timeline.lanes[0].busy, 1.5);
  EXPECT_DOUBLE_EQ(timeline.lanes[0].stalled[1], 0.5);
  EXPECT_DOUBLE_EQ(timeline.lanes[1].idle, 1.5);

  const TempFolder folder;
  const Path path = folder.path() / "trace.json";
  WriteTrace(path, program, timeline, "predicted");
  const Json events = ReadJsonFile(path).at("traceEvents");
  int slices = 0;
  for (const Json& event : events) {
    if (event.at("ph") != "X") continue;
    ++slices;
    if (event.at("name") == "forward a") {
      EXPECT_DOUBLE_EQ(event.at("ts").get<double>(), 0.5e6);
      EXPECT_DOUBLE_EQ(event.at("dur").get<double>(), 1.5e6);
      EXPECT_EQ(event.at("tid"), 1);
    }
  }
  EXPECT_EQ(slices, 2);
  EXPECT_EQ(LanesToJson(program, timeline)["compute"]["stalled"]["h2d"], 0.5);
}

}  // namespace
}  // namespace lazytrain
