#include "core/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

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

}  // namespace
}  // namespace lazytrain
