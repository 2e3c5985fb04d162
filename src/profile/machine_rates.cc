#include "profile/machine_rates.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/units.h"
#include "device/cpu/cpu_lane_context.h"
#include "ops/unit_kernels.h"

namespace lazytrain {
namespace {

// Host memory traffic and device memory traffic of an update: weight, low half and moments read and
// written, a bfloat16 gradient read.
constexpr double kUpdateBytes = 26;
// What an update's operands take.
constexpr int64_t kStateBytes = 14;
constexpr int kMostPieces = 4000;

struct Sizes {
  int64_t copy_bytes = 0;         // of one copy
  int64_t copy_places = 1;        // of host memory, with which copies take turns
  int64_t host_parameters = 0;    // of one update
  int64_t device_parameters = 0;  // of one update
  int64_t triad_elements = 0;     // float32
  double seconds = 0;             // of one measurement
};

// Beyond the caches of large processors where the device is a GPU (links read and write the caches,
// too, which leaves memory to updates that a step would not have); quick on the virtual
// accelerator. Parameters are whole chunks of the kernels' partial sums.
Sizes SizesFor(const Device& device, int64_t device_bytes) {
  const bool quick = device.backend() == "cpu";
  const auto at_most = [&](int64_t wanted, int64_t share) {
    return std::max<int64_t>(kNormChunk, std::min(wanted, share) / kNormChunk * kNormChunk);
  };
  Sizes sizes;
  sizes.copy_bytes = at_most(int64_t{quick ? 8 : 64} << 20, device_bytes / 4);
  sizes.copy_places = quick ? 1 : 16;
  sizes.host_parameters = int64_t{quick ? 2 : 32} << 20;
  sizes.device_parameters = at_most(sizes.host_parameters, device_bytes / (2 * kStateBytes));
  sizes.triad_elements = int64_t{quick ? 2 : 32} << 20;
  sizes.seconds = quick ? 0.02 : 0.2;
  return sizes;
}

// A piece of work that a lane does again and again.
struct Job {
  Lane* lane = nullptr;
  std::function<void(Lane&)> piece;
};

class RateMeter {
 public:
  explicit RateMeter(Device& device) : device_(device) {}

  // Pieces a second of each job while all of them are at work, for about so long.
  std::vector<double> Measure(const std::vector<Job>& jobs, double seconds) {
    std::vector<Marks> marks(jobs.size());
    std::vector<int> counts;
    for (const Job& job : jobs) {
      Enqueue(job, 2, marks[0]);  // the first warms up
      device_.Synchronize();
      const double once = marks[0][2]->seconds() - marks[0][1]->seconds();
      counts.push_back(
          std::clamp(static_cast<int>(seconds / std::max(once, 1e-7)), 3, kMostPieces));
      marks[0].clear();
    }
    for (size_t j = 0; j < jobs.size(); ++j) Enqueue(jobs[j], counts[j], marks[j]);
    device_.Synchronize();
    double begin = 0;
    double end = marks[0].back()->seconds();
    for (const Marks& of_job : marks) {
      begin = std::max(begin, of_job.front()->seconds());
      end = std::min(end, of_job.back()->seconds());
    }
    std::vector<double> rates;
    rates.reserve(marks.size());
    for (const Marks& of_job : marks) rates.push_back(RateIn(of_job, begin, end));
    return rates;
  }

 private:
  using Marks = std::vector<std::unique_ptr<Event>>;

  void Enqueue(const Job& job, int count, Marks& marks) {
    for (int i = 0; i <= count; ++i) {
      if (i > 0) job.piece(*job.lane);
      marks.push_back(device_.MakeEvent());
      job.lane->Record(*marks.back());
    }
  }

  // By the median piece of those that lie in a stretch of time; by all of them, where none does.
  static double RateIn(const Marks& marks, double begin, double end) {
    std::vector<double> seconds;
    for (size_t i = 0; i + 1 < marks.size(); ++i) {
      if (marks[i]->seconds() < begin || marks[i + 1]->seconds() > end) continue;
      seconds.push_back(marks[i + 1]->seconds() - marks[i]->seconds());
    }
    if (seconds.empty()) {
      seconds.push_back((marks.back()->seconds() - marks.front()->seconds()) /
                        static_cast<double>(marks.size() - 1));
    }
    const auto middle = seconds.begin() + static_cast<int64_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    return 1.0 / std::max(*middle, 1e-9);
  }

  Device& device_;
};

// AdamW over operands in one block, with one parameter tensor.
class UpdateJob {
 public:
  UpdateJob(std::unique_ptr<MemoryBlock> block, int64_t count, const UnitKernels& kernels)
      : block_(std::move(block)),
        parameters_{{count, 0, 0, DType::kBF16, true}},
        kernels_(kernels) {
    std::byte* base = block_->base();
    args_.parameters = &parameters_;
    args_.weights = base;
    args_.master_low = reinterpret_cast<int16_t*>(base + 2 * count);
    args_.moment1 = reinterpret_cast<float*>(base + 4 * count);
    args_.moment2 = reinterpret_cast<float*>(base + 8 * count);
    args_.gradient = base + 12 * count;
    args_.gradient_dtype = DType::kBF16;
  }
  UpdateJob(const UpdateJob&) = delete;
  UpdateJob& operator=(const UpdateJob&) = delete;

  void Enqueue(Lane& lane) const {
    lane.Run([this](LaneContext& context) { kernels_.adamw(args_, context); }, {});
  }
  double parameters() const { return static_cast<double>(parameters_[0].elements); }

 private:
  std::unique_ptr<MemoryBlock> block_;
  std::vector<UnitParameter> parameters_;
  const UnitKernels& kernels_;
  AdamWArgs args_;
};

// a = b + s c on all cores.
class Triad {
 public:
  explicit Triad(int64_t elements)
      : a_(Index(elements), 0.0f), b_(Index(elements), 1.0f), c_(Index(elements), 2.0f) {}

  void Enqueue(Lane& lane) {
    lane.Run(
        [this](LaneContext& context) {
          ThreadPool& threads = static_cast<CpuLaneContext&>(context).threads();
          const auto size = static_cast<int64_t>(a_.size());
          const int64_t parts = threads.threads();
          threads.Run(parts, [&](int64_t part) {
            const auto end = Index(size * (part + 1) / parts);
            for (size_t i = Index(size * part / parts); i < end; ++i) a_[i] = b_[i] + 0.5f * c_[i];
          });
        },
        {});
  }
  double bytes() const { return 3.0 * sizeof(float) * static_cast<double>(a_.size()); }

 private:
  static size_t Index(int64_t i) { return static_cast<size_t>(i); }
  std::vector<float> a_, b_, c_;
};

std::unique_ptr<MemoryBlock> Zeroed(std::unique_ptr<MemoryBlock> block) {
  std::memset(block->base(), 0, static_cast<size_t>(block->bytes()));
  return block;
}

// Zeroes device memory from the host.
void ClearDevice(Device& device, Lane& up, const MemoryBlock& block, const MemoryBlock& zeros) {
  for (int64_t at = 0; at < block.bytes(); at += zeros.bytes()) {
    up.Copy(block.base() + at, zeros.base(), std::min(zeros.bytes(), block.bytes() - at), {});
  }
  device.Synchronize();
}

void MeasureLinksAndHost(Device& device, const Sizes& sizes, MachineRates& rates) {
  const std::unique_ptr<MemoryBlock> there = device.AllocateDevice(2 * sizes.copy_bytes);
  const std::unique_ptr<MemoryBlock> here =
      Zeroed(device.AllocateHost(2 * sizes.copy_places * sizes.copy_bytes));
  const UpdateJob update(Zeroed(device.AllocateHost(kStateBytes * sizes.host_parameters)),
                         sizes.host_parameters, HostUnitKernels());
  Triad triad(sizes.triad_elements);
  const std::unique_ptr<Lane> up = device.MakeLane(LaneKind::kHostToDevice, "h2d");
  const std::unique_ptr<Lane> down = device.MakeLane(LaneKind::kDeviceToHost, "d2h");
  const std::unique_ptr<Lane> host = device.MakeLane(LaneKind::kHost, "host");
  ClearDevice(device, *up, *there, *here);
  const int64_t copy = sizes.copy_bytes;
  const auto bytes = static_cast<double>(copy);
  // Even places go up, odd ones come down.
  const auto place = [&](int64_t& turn) {
    const int64_t at = turn;
    turn = (turn + 2) % (2 * sizes.copy_places);
    return here->base() + at * copy;
  };
  const Job copy_up = {up.get(), [&, turn = int64_t{0}](Lane& lane) mutable {
                         lane.Copy(there->base(), place(turn), copy, {});
                       }};
  const Job copy_down = {down.get(), [&, turn = int64_t{1}](Lane& lane) mutable {
                           lane.Copy(place(turn), there->base() + copy, copy, {});
                         }};
  const Job run_update = {host.get(), [&](Lane& lane) { update.Enqueue(lane); }};
  const Job run_triad = {host.get(), [&](Lane& lane) { triad.Enqueue(lane); }};

  RateMeter meter(device);
  const auto measure = [&](const std::vector<Job>& jobs) {
    return meter.Measure(jobs, sizes.seconds);
  };
  rates.h2d = bytes * measure({copy_up})[0];
  rates.d2h = bytes * measure({copy_down})[0];
  const std::vector<double> both = measure({copy_up, copy_down});
  rates.h2d_both = bytes * both[0];
  rates.d2h_both = bytes * both[1];
  rates.host = triad.bytes() * measure({run_triad})[0];
  rates.host_beside_links = triad.bytes() * measure({copy_up, copy_down, run_triad})[2];
  rates.host_update = update.parameters() * measure({run_update})[0];
  const std::vector<double> all = measure({copy_up, copy_down, run_update});
  rates.host_update_beside_links = update.parameters() * all[2];
  rates.host_shared = bytes * (all[0] + all[1]) + kUpdateBytes * rates.host_update_beside_links;
}

void MeasureDevice(Device& device, const Sizes& sizes, MachineRates& rates) {
  const std::unique_ptr<Lane> compute = device.MakeLane(LaneKind::kCompute, "compute");
  const std::unique_ptr<Lane> up = device.MakeLane(LaneKind::kHostToDevice, "h2d");
  const int64_t count = sizes.device_parameters;
  const std::unique_ptr<MemoryBlock> zeros = Zeroed(device.AllocateHost(sizes.copy_bytes));
  std::unique_ptr<MemoryBlock> block = device.AllocateDevice(kStateBytes * count);
  ClearDevice(device, *up, *block, *zeros);
  RateMeter meter(device);
  std::byte* base = block->base();
  const int64_t half = kStateBytes / 2 * count;
  const Job copy = {compute.get(), [&](Lane& lane) { lane.Copy(base + half, base, half, {}); }};
  rates.device_copy = 2.0 * static_cast<double>(half) * meter.Measure({copy}, sizes.seconds)[0];
  const UpdateJob update(std::move(block), count, UnitKernelsFor(device));
  const Job run_update = {compute.get(), [&](Lane& lane) { update.Enqueue(lane); }};
  rates.device_update = update.parameters() * meter.Measure({run_update}, sizes.seconds)[0];
}

}  // namespace

HardwareRates MachineRates::ForPlanning() const {
  HardwareRates planning;
  const auto believe = [](double measured, double& rate) {
    if (measured > 0) rate = measured;
  };
  believe(std::min(h2d, h2d_both), planning.h2d_bytes);
  believe(std::min(d2h, d2h_both), planning.d2h_bytes);
  believe(host_shared, planning.host_bytes);
  believe(gemm_flops, planning.gemm_flops);
  // Sweeps over gradients keep all of the device busy, as an update does and a copy may not.
  believe(std::max(device_copy, kUpdateBytes * device_update), planning.device_bytes);
  believe(host_update, planning.host_update);
  believe(device_update, planning.device_update);
  return planning;
}

MachineRates MeasureRates(Device& device, int64_t device_bytes) {
  const Sizes sizes = SizesFor(device, device_bytes);
  MachineRates rates;
  MeasureLinksAndHost(device, sizes, rates);
  MeasureDevice(device, sizes, rates);
  return rates;
}

}  // namespace lazytrain
