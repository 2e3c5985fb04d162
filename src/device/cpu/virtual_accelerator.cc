#include "device/cpu/virtual_accelerator.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/units.h"
#include "device/cpu/cpu_lane_context.h"
#include "device/cpu/guarded_block.h"
#include "device/cpu/shared_rate.h"
#include "device/task_queue.h"
#include "device/timeline.h"

namespace lazytrain {
namespace {

class CpuEvent final : public Event {
 public:
  double seconds() const override {
    const std::lock_guard lock(mutex_);
    return seconds_;
  }
  void Pass(double seconds) {
    const std::lock_guard lock(mutex_);
    passed_ = true;
    seconds_ = seconds;
    changed_.notify_all();
  }
  void SetSeconds(double seconds) {
    const std::lock_guard lock(mutex_);
    seconds_ = seconds;
  }
  void Await() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return passed_; });
  }
  void Reset() {
    const std::lock_guard lock(mutex_);
    passed_ = false;
    logged_after = -1;
  }
  int logged_after =
      -1;  // virtual clock: the work it follows; only the enqueuing thread touches it

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool passed_ = false;
  double seconds_ = 0;
};

// The virtual clock: what was enqueued, in order, and what that adds up to. Demands are known when
// work is enqueued, so no measurement enters. Only the enqueuing thread touches it.
class VirtualClock {
 public:
  int AddLane() {
    waits_.emplace_back();
    last_work_.push_back(-1);
    return static_cast<int>(last_work_.size()) - 1;
  }

  void Wait(int lane, const CpuEvent& event) {
    if (event.logged_after >= 0) waits_[Index(lane)].push_back(event.logged_after);
  }

  void Work(int lane, const Demand& demand) {
    last_work_[Index(lane)] = static_cast<int>(log_.size());
    log_.push_back(
        {lane, std::exchange(waits_[Index(lane)], {}), demand.seconds, demand.host_bytes});
  }

  void Record(int lane, CpuEvent& event) {
    // An event passes no earlier than what its lane waits for: that is work of no length.
    if (!waits_[Index(lane)].empty()) Work(lane, {});
    event.logged_after = last_work_[Index(lane)];
    recorded_.emplace_back(&event, event.logged_after);
  }

  // Tells all events their times and begins a new log where this one ends.
  void Settle(double host_bytes_per_second) {
    const std::vector<TimedSpan> spans =
        ComputeTimeline(log_, static_cast<int>(waits_.size()), host_bytes_per_second);
    for (const auto& [event, work] : recorded_) {
      event->SetSeconds(start_ + (work < 0 ? 0.0 : spans[Index(work)].end));
    }
    double end = 0;
    for (const TimedSpan& span : spans) end = std::max(end, span.end);
    start_ += end;
    log_.clear();
    recorded_.clear();
    for (auto& waits : waits_) waits.clear();
    std::fill(last_work_.begin(), last_work_.end(), -1);
  }

 private:
  static size_t Index(int i) { return static_cast<size_t>(i); }

  double start_ = 0;
  std::vector<TimedWork> log_;
  std::vector<std::vector<int>> waits_;              // for each lane, until its next work
  std::vector<int> last_work_;                       // for each lane, -1: none
  std::vector<std::pair<CpuEvent*, int>> recorded_;  // event, the work it follows (-1: none)
};

// Everything the lanes of one device share.
struct Shared {
  explicit Shared(const VirtualAcceleratorOptions& given)
      : options(given), rate(given.host_bytes_per_second) {}

  double Now() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - epoch).count();
  }
  bool virtual_clock() const { return options.clock == ClockMode::kVirtual; }

  VirtualAcceleratorOptions options;
  SharedRate rate;
  VirtualClock clock;
  std::chrono::steady_clock::time_point epoch = std::chrono::steady_clock::now();

  std::atomic<bool> failed{false};  // after a failure lanes only pass events on
  std::mutex failure_mutex;
  std::exception_ptr failure;
};

class CpuLane final : public Lane {
 public:
  CpuLane(Shared& shared, int threads, std::function<void(CpuLane*)> on_end)
      : shared_(shared),
        id_(shared.clock.AddLane()),
        pool_(threads),
        context_(pool_),
        on_end_(std::move(on_end)) {}
  ~CpuLane() override {
    queue_.reset();
    on_end_(this);
  }

  void Wait(const Event& event) override {
    const auto& awaited = static_cast<const CpuEvent&>(event);
    if (shared_.virtual_clock()) shared_.clock.Wait(id_, awaited);
    Enqueue([&awaited] { awaited.Await(); });
  }

  void Record(Event& event) override {
    auto& recorded = static_cast<CpuEvent&>(event);
    if (!shared_.virtual_clock()) {
      Enqueue([this, &recorded] { recorded.Pass(shared_.Now()); });
      return;
    }
    shared_.clock.Record(id_, recorded);
    Enqueue([&recorded] { recorded.Pass(0); });
  }

  void Run(std::function<void(LaneContext&)> work, const Demand& demand) override {
    if (shared_.virtual_clock()) shared_.clock.Work(id_, demand);
    Enqueue([this, work = std::move(work), demand] { Perform(demand, [&] { work(context_); }); });
  }

  void Copy(void* target, const void* source, int64_t bytes, const Demand& demand) override {
    Run([=](LaneContext&) { std::memcpy(target, source, static_cast<size_t>(bytes)); }, demand);
  }

  void AwaitIdle() { queue_->AwaitIdle(); }

 private:
  template <typename Function>
  void Perform(const Demand& demand, const Function& work) {
    if (shared_.failed) return;
    std::optional<SharedRate::Participant> throttled;
    if (shared_.options.clock == ClockMode::kThrottle) throttled.emplace(shared_.rate, demand);
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(shared_.failure_mutex);
      if (!shared_.failure) shared_.failure = std::current_exception();
      shared_.failed = true;
    }
    if (throttled) throttled->WaitUntilDone();
  }

  void Enqueue(std::function<void()> task) { queue_->Enqueue(std::move(task)); }

  Shared& shared_;
  int id_;
  ThreadPool pool_;
  CpuLaneContext context_;
  std::function<void(CpuLane*)> on_end_;
  std::optional<TaskQueue> queue_{std::in_place};  // last: its thread uses all of the above
};

class VirtualAccelerator final : public Device {
 public:
  explicit VirtualAccelerator(const VirtualAcceleratorOptions& options) : shared_(options) {
    if (shared_.options.threads <= 0) shared_.options.threads = AvailableCores();
  }

  std::string_view backend() const override { return "cpu"; }
  std::string description() const override {
    return fmt::format("virtual accelerator ({} threads)", shared_.options.threads);
  }
  std::unique_ptr<MemoryBlock> AllocateDevice(int64_t bytes) override {
    return std::make_unique<GuardedBlock>(bytes, shared_.options.poison);
  }
  std::unique_ptr<MemoryBlock> AllocateHost(int64_t bytes) override {
    return std::make_unique<GuardedBlock>(bytes, shared_.options.poison);
  }
  bool models_time() const override { return shared_.options.clock != ClockMode::kReal; }
  std::unique_ptr<Lane> MakeLane(LaneKind kind, std::string) override {
    const bool computes = kind == LaneKind::kCompute || kind == LaneKind::kHost;
    auto lane = std::make_unique<CpuLane>(shared_, computes ? shared_.options.threads : 1,
                                          [this](CpuLane* ended) { std::erase(lanes_, ended); });
    lanes_.push_back(lane.get());
    return lane;
  }
  std::unique_ptr<Event> MakeEvent() override { return std::make_unique<CpuEvent>(); }
  void Reset(Event& event) override { static_cast<CpuEvent&>(event).Reset(); }

  void Synchronize() override {
    for (CpuLane* lane : lanes_) lane->AwaitIdle();
    if (shared_.virtual_clock()) shared_.clock.Settle(shared_.options.host_bytes_per_second);
    shared_.failed = false;
    const std::lock_guard lock(shared_.failure_mutex);
    if (shared_.failure) std::rethrow_exception(std::exchange(shared_.failure, nullptr));
  }

 private:
  Shared shared_;
  std::vector<CpuLane*> lanes_;
};

}  // namespace

std::unique_ptr<Device> MakeVirtualAccelerator(const VirtualAcceleratorOptions& options) {
  return std::make_unique<VirtualAccelerator>(options);
}

}  // namespace lazytrain
