// A thread that runs tasks in the order in which they came.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace lazytrain {

class TaskQueue {
 public:
  TaskQueue() : thread_([this] { Work(); }) {}
  // Runs what is queued, then ends the thread.
  ~TaskQueue();
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  // A task must not throw.
  void Enqueue(std::function<void()> task);
  // Blocks until everything queued so far is done.
  void AwaitIdle();

 private:
  void Work();

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::condition_variable idle_;
  std::deque<std::function<void()>> queue_;  // an empty function ends the thread
  bool busy_ = false;
  std::thread thread_;
};

}  // namespace lazytrain
