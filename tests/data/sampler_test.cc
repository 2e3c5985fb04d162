#include "data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/error.h"
#include "core/random.h"

namespace lazytrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Step = std::vector<int64_t>;

std::string MessageOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

// The orders of the first epochs, one after the other, as batches of one example show them.
std::vector<int64_t> Order(const std::vector<int64_t>& lengths, uint64_t seed, int64_t epochs) {
  SamplerOptions options;
  options.seed = seed;
  Sampler sampler(lengths, options);
  std::vector<int64_t> order;
  for (int64_t i = 0; i < epochs * static_cast<int64_t>(lengths.size()); ++i) {
    const Step step = sampler.NextStep();
    EXPECT_THAT(step, SizeIs(1));
    order.push_back(step.at(0));
  }
  return order;
}

TEST(Sampler, EveryEpochIsAnotherPermutation) {
  const std::vector<int64_t> lengths(50, 3);
  const std::vector<int64_t> order = Order(lengths, 7, 3);
  std::vector<std::vector<int64_t>> epochs;
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> sorted(order.begin() + epoch * 50, order.begin() + (epoch + 1) * 50);
    epochs.push_back(sorted);
    std::sort(sorted.begin(), sorted.end());
    for (int64_t i = 0; i < 50; ++i) EXPECT_EQ(sorted[static_cast<size_t>(i)], i);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  EXPECT_EQ(Order(lengths, 7, 3), order);
  EXPECT_NE(Order(lengths, 8, 3), order);
}

TEST(Sampler, TheOrderIsTheDocumentedShuffle) {
  std::vector<int64_t> expected(10);
  std::iota(expected.begin(), expected.end(), 0);
  Random random(StreamSeed(42, 1));
  random.Shuffle(expected);
  const std::vector<int64_t> order = Order(std::vector<int64_t>(10, 1), 42, 2);
  EXPECT_EQ(std::vector<int64_t>(order.begin() + 10, order.end()), expected);
}

TEST(Sampler, StepsOfAnEndlessRunGoOverTheEndOfAnEpoch) {
  const std::vector<int64_t> lengths(5, 3);
  const std::vector<int64_t> order = Order(lengths, 1, 6);
  SamplerOptions options;
  options.seed = 1;
  options.batch_size = 2;
  options.gradient_accumulation_steps = 2;
  Sampler sampler(lengths, options);
  for (int64_t step = 0; step < 7; ++step) {
    EXPECT_EQ(sampler.NextStep(), Step(order.begin() + 4 * step, order.begin() + 4 * step + 4));
  }
  EXPECT_EQ(sampler.state(), (Sampler::State{5, 3}));
  // A step may be longer than several epochs.
  options.batch_size = 6;
  Sampler wide(lengths, options);
  EXPECT_EQ(wide.NextStep(), Step(order.begin(), order.begin() + 12));
}

TEST(Sampler, EpochsEndWithAShortStep) {
  const std::vector<int64_t> lengths(5, 3);
  const std::vector<int64_t> order = Order(lengths, 1, 2);
  SamplerOptions options;
  options.seed = 1;
  options.batch_size = 2;
  options.num_epochs = 2;
  Sampler sampler(lengths, options);
  const auto part = [&](int begin, int end) {
    return Step(order.begin() + begin, order.begin() + end);
  };
  EXPECT_EQ(sampler.NextStep(), part(0, 2));
  EXPECT_EQ(sampler.NextStep(), part(2, 4));
  EXPECT_EQ(sampler.NextStep(), part(4, 5));
  EXPECT_EQ(sampler.NextStep(), part(5, 7));
  EXPECT_EQ(sampler.NextStep(), part(7, 9));
  EXPECT_EQ(sampler.NextStep(), part(9, 10));
  EXPECT_THAT(sampler.NextStep(), IsEmpty());
  EXPECT_THAT(sampler.NextStep(), IsEmpty());
  EXPECT_EQ(sampler.StepsInEpochs(0), 0);
  EXPECT_EQ(sampler.StepsInEpochs(1), 3);
  EXPECT_EQ(sampler.StepsInEpochs(2), 6);
}

TEST(Sampler, TokensAStep) {
  SamplerOptions options;
  options.batch_tokens = 10;
  options.num_epochs = 1;
  // Lengths 4, 4, 4, 4, 4: two fit, whatever the order.
  Sampler sampler(std::vector<int64_t>(5, 4), options);
  EXPECT_THAT(sampler.NextStep(), SizeIs(2));
  EXPECT_THAT(sampler.NextStep(), SizeIs(2));
  EXPECT_THAT(sampler.NextStep(), SizeIs(1));
  EXPECT_THAT(sampler.NextStep(), IsEmpty());
  EXPECT_EQ(sampler.StepsInEpochs(3), 9);
  options.gradient_accumulation_steps = 2;  // 20 tokens: five fit exactly
  Sampler twice(std::vector<int64_t>(5, 4), options);
  EXPECT_THAT(twice.NextStep(), SizeIs(5));
  EXPECT_EQ(twice.StepsInEpochs(3), 3);
}

TEST(Sampler, RefusesWhatCannotBe) {
  SamplerOptions options;
  options.batch_tokens = 10;
  EXPECT_THAT(MessageOf([&] {
                Sampler sampler({3, 11}, options);
              }),
              AllOf(HasSubstr("batch_tokens is 10"), HasSubstr("11 tokens")));
  EXPECT_THAT(MessageOf([&] { Sampler sampler({}, options); }), HasSubstr("at least one"));
  Sampler sampler({1, 2, 3}, {});
  EXPECT_THAT(MessageOf([&] { sampler.Restore({0, 3}); }), HasSubstr("has 3 documents"));
  EXPECT_THAT(MessageOf([&] { sampler.Restore({-1, 0}); }), HasSubstr("epoch -1"));
}

// Whatever the lengths and limits: each epoch has every document once, in the order of the shuffle;
// a step is never above its limit and never ends while the next document would fit; and a restored
// sampler goes on as the first one.
TEST(Sampler, RandomRuns) {
  Random random(11);
  for (int round = 0; round < 300; ++round) {
    std::vector<int64_t> lengths(static_cast<size_t>(random.Between(1, 40)));
    for (int64_t& length : lengths) length = random.Between(1, 20);
    SamplerOptions options;
    options.seed = random.Next();
    options.batch_size = random.Between(1, 50);
    options.batch_tokens = random.Below(2) == 0 ? 0 : random.Between(20, 200);
    options.gradient_accumulation_steps = random.Between(1, 3);
    options.num_epochs = random.Below(2) == 0 ? 0 : 3;
    const std::vector<int64_t> order = Order(lengths, options.seed, 12);
    const int64_t tokens_limit = options.batch_tokens * options.gradient_accumulation_steps;
    const int64_t examples_limit = options.batch_size * options.gradient_accumulation_steps;
    const auto documents = static_cast<int64_t>(lengths.size());

    Sampler sampler(lengths, options);
    std::vector<int64_t> seen;
    int64_t steps = 0;
    while (static_cast<int64_t>(seen.size()) < 3 * documents) {
      if (random.Below(3) == 0) {
        Sampler resumed(lengths, options);
        resumed.Restore(sampler.state());
        sampler = resumed;
      }
      const Step step = sampler.NextStep();
      ASSERT_FALSE(step.empty());
      ++steps;
      int64_t tokens = 0;
      for (const int64_t i : step) tokens += lengths[static_cast<size_t>(i)];
      seen.insert(seen.end(), step.begin(), step.end());
      if (seen.size() >= order.size()) break;
      const bool epoch_ended = options.num_epochs > 0 && seen.size() % lengths.size() == 0;
      const int64_t next = lengths[static_cast<size_t>(order[seen.size()])];
      if (options.batch_tokens > 0) {
        EXPECT_LE(tokens, tokens_limit);
        EXPECT_TRUE(epoch_ended || tokens + next > tokens_limit);
      } else {
        EXPECT_LE(static_cast<int64_t>(step.size()), examples_limit);
        EXPECT_TRUE(epoch_ended || static_cast<int64_t>(step.size()) == examples_limit);
      }
    }
    const size_t compared = std::min(seen.size(), order.size());
    EXPECT_TRUE(
        std::equal(seen.begin(), seen.begin() + static_cast<int64_t>(compared), order.begin()));
    if (options.num_epochs > 0) {
      EXPECT_THAT(sampler.NextStep(), IsEmpty());
      EXPECT_EQ(steps, sampler.StepsInEpochs(3));
    }
  }
}

}  // namespace
}  // namespace lazytrain
