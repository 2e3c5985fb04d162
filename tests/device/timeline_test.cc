#include "device/timeline.h"

#include <gtest/gtest.h>

namespace lazytrain {
namespace {

TEST(Timeline, LanesRunInOrderAndWait) {
  // Lane 0: a (2 s), b (1 s). Lane 1: c waits for a (3 s). Lane 0: d waits for c.
  const auto spans =
      ComputeTimeline({{0, {}, 2, 0}, {0, {}, 1, 0}, {1, {0}, 3, 0}, {0, {2}, 1, 0}}, 2, 0);
  EXPECT_DOUBLE_EQ(spans[0].end, 2);
  EXPECT_DOUBLE_EQ(spans[1].end, 3);
  EXPECT_DOUBLE_EQ(spans[2].start, 2);
  EXPECT_DOUBLE_EQ(spans[2].end, 5);
  EXPECT_DOUBLE_EQ(spans[3].start, 5);
  EXPECT_DOUBLE_EQ(spans[3].end, 6);
}

TEST(Timeline, HostMemoryIsShared) {
  // Each alone moves 10 bytes/s; together they would move 20, and there are 10: both take twice as
  // long while both run. Work that touches no host memory is not slowed down.
  const auto spans = ComputeTimeline({{0, {}, 1, 10}, {1, {}, 2, 20}, {2, {}, 1, 0}}, 3, 10);
  EXPECT_DOUBLE_EQ(spans[0].end, 2);
  EXPECT_DOUBLE_EQ(spans[1].end, 3);  // half done at 2, then alone
  EXPECT_DOUBLE_EQ(spans[2].end, 1);
}

TEST(Timeline, WorkOfNoTimeTakesNone) {
  const auto spans = ComputeTimeline({{0, {}, 0, 0}, {1, {0}, 0, 0}, {0, {1}, 1, 0}}, 2, 0);
  EXPECT_DOUBLE_EQ(spans[1].end, 0);
  EXPECT_DOUBLE_EQ(spans[2].end, 1);
}

}  // namespace
}  // namespace lazytrain
