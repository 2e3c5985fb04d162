#include "engine/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lazytrain {
namespace {

using ::testing::ElementsAre;

TEST(MicroBatch, LabelsShiftInsideDocuments) {
  const std::vector<int32_t> a_ids = {5, 6, 7}, a_labels = {5, -100, 7};
  const std::vector<int32_t> b_ids = {8, 9}, b_labels = {8, 9};
  const std::vector<DocumentView> documents = {{a_ids, a_labels}, {b_ids, b_labels}};
  std::vector<MicroBatch> step = {MakeMicroBatch(documents)};
  EXPECT_THAT(step[0].input_ids, ElementsAre(5, 6, 7, 8, 9));
  EXPECT_THAT(step[0].positions, ElementsAre(0, 1, 2, 0, 1));
  EXPECT_THAT(step[0].targets, ElementsAre(-1, 7, -1, 9, -1));
  EXPECT_THAT(step[0].cu_seqlens, ElementsAre(0, 3, 5));
  EXPECT_EQ(FinishStep(step), 2);
  EXPECT_THAT(step[0].loss_weights, ElementsAre(0.0f, 0.5f, 0.0f, 0.5f, 0.0f));
  const RowCounts rows = step[0].Rows();
  EXPECT_EQ(rows.tokens, 5);
  EXPECT_EQ(rows.documents, 2);
  EXPECT_EQ(rows.longest_document, 3);
  EXPECT_DOUBLE_EQ(rows.squared_lengths, 13.0);
}

TEST(MicroBatch, WeightsSpanTheStep) {
  const std::vector<int32_t> ids = {1, 2, 3};
  const DocumentView document{ids, ids};
  std::vector<MicroBatch> step = {MakeMicroBatch({&document, 1}), MakeMicroBatch({&document, 1})};
  EXPECT_EQ(FinishStep(step), 4);
  EXPECT_THAT(step[1].loss_weights, ElementsAre(0.25f, 0.25f, 0.0f));
}

TEST(MicroBatch, NothingTrained) {
  const std::vector<int32_t> ids = {1, 2}, labels = {-100, -100};
  const DocumentView document{ids, labels};
  std::vector<MicroBatch> step = {MakeMicroBatch({&document, 1})};
  EXPECT_EQ(FinishStep(step), 0);
  EXPECT_THAT(step[0].loss_weights, ElementsAre(0.0f, 0.0f));
}

}  // namespace
}  // namespace lazytrain
