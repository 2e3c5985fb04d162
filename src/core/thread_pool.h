// Threads that share one loop. Work is cut into tasks whose borders do not depend on the number of
// threads, so results never do either.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace lazytrain {

class ThreadPool {
 public:
  // `threads` in all, the caller of Run included; at least 1.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(i) for every i in [0, count), in any order, on this thread and the workers; returns
  // when all are done. One Run at a time: a second caller waits. Must not be called from a task.
  // Of exceptions that tasks throw, that of the lowest i is rethrown here once all have ended.
  void Run(int64_t count, const std::function<void(int64_t)>& task);

 private:
  struct Loop;
  void Work();

  std::vector<std::thread> workers_;
  std::mutex run_mutex_;  // held by the caller of Run
  std::mutex mutex_;      // guards what follows
  std::condition_variable wake_;
  std::condition_variable done_;
  Loop* loop_ = nullptr;
  uint64_t generation_ = 0;
  bool stopping_ = false;
};

// The processor cores this process may use.
int AvailableCores();

}  // namespace lazytrain
