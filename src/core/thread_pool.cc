#include "core/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <exception>

namespace lazytrain {

struct ThreadPool::Loop {
  const std::function<void(int64_t)>* task;
  int64_t count;
  int64_t next = 0;    // first index nobody has taken
  int64_t active = 0;  // tasks being run
  // Of the lowest index that failed: all are run, so it does not depend on who was first in time.
  std::exception_ptr failure = nullptr;
  int64_t failed = count;

  // Runs a task, with the lock given back meanwhile.
  void RunNext(std::unique_lock<std::mutex>& lock) {
    const int64_t i = next++;
    ++active;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      (*task)(i);
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    if (thrown && i < failed) {
      failure = thrown;
      failed = i;
    }
    --active;
  }
};

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { Work(); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(int64_t count, const std::function<void(int64_t)>& task) {
  if (count <= 0) return;
  if (workers_.empty() || count == 1) {
    for (int64_t i = 0; i < count; ++i) task(i);
    return;
  }
  const std::lock_guard one_at_a_time(run_mutex_);
  Loop loop{&task, count};
  std::unique_lock lock(mutex_);
  loop_ = &loop;
  ++generation_;
  wake_.notify_all();
  while (loop.next < loop.count) loop.RunNext(lock);
  done_.wait(lock, [&] { return loop.active == 0; });
  loop_ = nullptr;
  lock.unlock();
  if (loop.failure) std::rethrow_exception(loop.failure);
}

void ThreadPool::Work() {
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [&] { return stopping_ || (generation_ != seen && loop_ != nullptr); });
    if (stopping_) return;
    seen = generation_;
    Loop* loop = loop_;
    while (loop_ == loop && loop->next < loop->count) {
      loop->RunNext(lock);
      // The caller cannot leave Run, and take `loop` with it, before this.
      if (loop->active == 0 && loop->next >= loop->count) done_.notify_all();
    }
  }
}

int AvailableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace lazytrain
