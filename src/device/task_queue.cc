#include "device/task_queue.h"

#include <utility>

namespace lazytrain {

TaskQueue::~TaskQueue() {
  Enqueue(nullptr);
  thread_.join();
}

void TaskQueue::Enqueue(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(task));
  wake_.notify_one();
}

void TaskQueue::AwaitIdle() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return queue_.empty() && !busy_; });
}

void TaskQueue::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return !queue_.empty(); });
    std::function<void()> task = std::move(queue_.front());
    queue_.pop_front();
    if (task == nullptr) return;
    busy_ = true;
    lock.unlock();
    task();
    task = nullptr;  // what it holds ends before the queue is idle
    lock.lock();
    busy_ = false;
    if (queue_.empty()) idle_.notify_all();
  }
}

}  // namespace lazytrain
