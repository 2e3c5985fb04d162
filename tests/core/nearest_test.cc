#include "core/nearest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lazytrain {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(EditDistanceTest, CountsInsertionsDeletionsAndReplacements) {
  EXPECT_EQ(EditDistance("", ""), 0u);
  EXPECT_EQ(EditDistance("", "abc"), 3u);
  EXPECT_EQ(EditDistance("abc", ""), 3u);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3u);
  EXPECT_EQ(EditDistance("flaw", "lawn"), 2u);
  EXPECT_EQ(EditDistance("same", "same"), 0u);
}

TEST(NearestNamesTest, NearestFirstThenAlphabetical) {
  const std::vector<std::string> names = {"linear", "cosine", "constant", "cousin"};
  EXPECT_THAT(NearestNames("COSIN", names, 2), ElementsAre("cosine", "cousin"));
  EXPECT_THAT(NearestNames("linear", names, 1), ElementsAre("linear"));
  EXPECT_EQ(NearestNames("x", names, 9).size(), 4u);
  EXPECT_THAT(NearestNames("x", {}, 3), IsEmpty());
}

}  // namespace
}  // namespace lazytrain
