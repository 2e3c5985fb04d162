#include "core/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

namespace lazytrain {
namespace {

TEST(ThreadPool, RunsEveryTaskOnce) {
  ThreadPool pool(4);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::atomic<int>> counts(37);
    pool.Run(37, [&](int64_t i) { ++counts[i]; });
    for (const auto& count : counts) EXPECT_EQ(count.load(), 1);
  }
}

TEST(ThreadPool, RethrowsAfterAllTasksEnded) {
  ThreadPool pool(3);
  std::atomic<int> ran{0};
  EXPECT_THROW(pool.Run(50,
                        [&](int64_t i) {
                          ++ran;
                          if (i == 7) throw std::runtime_error("seven");
                        }),
               std::runtime_error);
  EXPECT_EQ(ran.load(), 50);
}

TEST(ThreadPool, RethrowsWhatTheLowestTaskThrew) {
  ThreadPool pool(3);
  std::atomic<bool> later_failed{false};
  const auto task = [&](int64_t i) {
    if (i == 0) {
      while (!later_failed) std::this_thread::yield();
      throw std::runtime_error("zero");
    }
    if (i == 1) {
      later_failed = true;
      throw std::runtime_error("one");
    }
  };
  try {
    pool.Run(2, task);
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "zero");
  }
}

}  // namespace
}  // namespace lazytrain
