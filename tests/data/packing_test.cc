#include "data/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "core/random.h"

namespace lazytrain {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<DocumentRange> Cut(const std::vector<int64_t>& lengths, int64_t capacity,
                               int64_t max_documents = 0) {
  return CutIntoMicroBatches(lengths, capacity, max_documents);
}

TEST(Packing, NextFitByHand) {
  // 5 + 5 fills exactly; 6 does not fit beside 3 + 2; the small 1 does not go back.
  EXPECT_THAT(Cut({5, 5, 3, 2, 6, 10, 1}, 10),
              ElementsAre(DocumentRange{0, 2, 10}, DocumentRange{2, 4, 5}, DocumentRange{4, 5, 6},
                          DocumentRange{5, 6, 10}, DocumentRange{6, 7, 1}));
  EXPECT_THAT(Cut({1, 1, 1, 1, 1}, 10, 2),
              ElementsAre(DocumentRange{0, 2, 2}, DocumentRange{2, 4, 2}, DocumentRange{4, 5, 1}));
  EXPECT_THAT(Cut({}, 10), IsEmpty());
}

TEST(Packing, ADocumentLongerThanTheCapacity) {
  try {
    Cut({3, 11}, 10);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("11 tokens"), HasSubstr("micro-batch of 10")));
  }
}

// Micro-batches cover the step in order, never pass their limits, never stop early.
TEST(Packing, RandomSteps) {
  Random random(9);
  for (int round = 0; round < 500; ++round) {
    const int64_t capacity = random.Between(1, 60);
    const int64_t max_documents = random.Between(0, 4);
    std::vector<int64_t> lengths(random.Below(30));
    for (int64_t& length : lengths) length = random.Between(1, capacity);
    int64_t next = 0;
    for (const DocumentRange& batch : Cut(lengths, capacity, max_documents)) {
      EXPECT_EQ(batch.begin, next);
      next = batch.end;
      EXPECT_GT(batch.documents(), 0);
      EXPECT_LE(batch.tokens, capacity);
      if (max_documents > 0) {
        EXPECT_LE(batch.documents(), max_documents);
      }
      if (next < static_cast<int64_t>(lengths.size()) && batch.documents() != max_documents) {
        EXPECT_GT(batch.tokens + lengths[static_cast<size_t>(next)], capacity);
      }
      int64_t tokens = 0;
      for (int64_t i = batch.begin; i < batch.end; ++i) tokens += lengths[static_cast<size_t>(i)];
      EXPECT_EQ(tokens, batch.tokens);
    }
    EXPECT_EQ(next, static_cast<int64_t>(lengths.size()));
  }
}

}  // namespace
}  // namespace lazytrain
