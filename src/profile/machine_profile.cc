#include "profile/machine_profile.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/thread_pool.h"
#include "core/units.h"
#include "ops/kernel.h"
#include "ops/unit_kernels.h"

namespace lazytrain {
namespace {

constexpr int64_t kCopyBytes = int64_t{64} << 20;
constexpr int64_t kParameters = int64_t{2} << 20;
constexpr int kRuns = 3;

// Seconds of work on a lane: the fastest of a few runs after one that warms up, since others on the
// machine can only make it slower.
double TimeOnLane(Device& device, Lane& lane, const std::function<void(Lane&)>& enqueue) {
  double best = 0;
  for (int run = 0; run <= kRuns; ++run) {
    const std::unique_ptr<Event> start = device.MakeEvent();
    const std::unique_ptr<Event> end = device.MakeEvent();
    lane.Record(*start);
    enqueue(lane);
    lane.Record(*end);
    device.Synchronize();
    const double seconds = end->seconds() - start->seconds();
    if (run > 0) best = best > 0 ? std::min(best, seconds) : seconds;
  }
  return std::max(best, 1e-9);
}

// Both directions at once: the seconds of the slower.
double TimeTogether(Device& device, Lane& a, const std::function<void(Lane&)>& work_a, Lane& b,
                    const std::function<void(Lane&)>& work_b) {
  double best = 0;
  for (int run = 0; run <= kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    work_a(a);
    work_b(b);
    device.Synchronize();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (run > 0) best = best > 0 ? std::min(best, seconds.count()) : seconds.count();
  }
  return std::max(best, 1e-9);
}

// Bytes a second that a = b + s c moves on all cores.
double MeasureTriad() {
  constexpr int64_t kElements = int64_t{4} << 20;
  std::vector<float> a(kElements), b(kElements, 1.0f), c(kElements, 2.0f);
  const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  ThreadPool pool(threads);
  double best = 0;
  for (int run = 0; run <= kRuns; ++run) {
    const auto start = std::chrono::steady_clock::now();
    pool.Run(threads, [&](int64_t t) {
      const int64_t begin = kElements * t / threads;
      const int64_t end = kElements * (t + 1) / threads;
      for (int64_t i = begin; i < end; ++i) a[i] = b[i] + 0.5f * c[i];
    });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, 3.0 * 4.0 * kElements / seconds.count());
  }
  return best;
}

// Parameters a second.
double MeasureUpdate(Device& device, Lane& lane, MemoryBlock& block, const UnitKernels& kernels) {
  const std::vector<UnitParameter> parameters = {{kParameters, 0, 0, DType::kBF16, true}};
  std::byte* base = block.base();
  AdamWArgs args;
  args.parameters = &parameters;
  args.weights = base;
  args.master_low = reinterpret_cast<int16_t*>(base + 2 * kParameters);
  args.moment1 = reinterpret_cast<float*>(base + 4 * kParameters);
  args.moment2 = reinterpret_cast<float*>(base + 8 * kParameters);
  args.gradient = base + 12 * kParameters;
  args.gradient_dtype = DType::kBF16;
  const double seconds = TimeOnLane(device, lane, [&](Lane& l) {
    l.Run([&](LaneContext& context) { kernels.adamw(args, context); }, {});
  });
  return static_cast<double>(kParameters) / seconds;
}

// One op of a graph with operands in one block of device memory.
class OpTimer {
 public:
  OpTimer(Device& device, Lane& compute, Lane& h2d, const RowCounts& rows)
      : device_(device), compute_(compute), h2d_(h2d), rows_(rows) {}

  // Seconds.
  double Time(const SegmentGraph& graph, const OpNode& node, const Segment& segment,
              const std::vector<UnitSpec>& units, Direction direction) {
    const KernelFunction kernel = KernelsFor(device_).Find(*node.op, direction);
    bytes_ = 0;
    Lay(graph, node, segment, units, direction, nullptr);
    const std::unique_ptr<MemoryBlock> block = device_.AllocateDevice(RoundUp(bytes_, kAlignment));
    // 0.0078 as float32, and twice in bfloat16.
    Fill(block->base(), block->bytes(), [](int64_t) { return 0x3c003c00; });
    bytes_ = 0;
    OpArgs args = Lay(graph, node, segment, units, direction, block->base());
    for (const TensorView& input : args.inputs) {
      if (input.dtype != DType::kI32) continue;
      Fill(static_cast<std::byte*>(input.data), input.bytes(),
           [](int64_t i) { return static_cast<int32_t>(i % 16); });
    }
    const std::unique_ptr<MemoryBlock> host =
        device_.AllocateHost(kAlignment * CeilDiv((rows_.documents + 1) * 4, kAlignment));
    auto* cu_seqlens = reinterpret_cast<int32_t*>(host->base());
    for (int64_t d = 0; d <= rows_.documents; ++d) {
      cu_seqlens[d] = static_cast<int32_t>(rows_.tokens * d / rows_.documents);
    }
    h2d_.Copy(cu_seqlens_device_, cu_seqlens, (rows_.documents + 1) * 4, {});
    device_.Synchronize();
    args.batch.rows = rows_;
    args.batch.cu_seqlens_host = cu_seqlens;
    args.batch.cu_seqlens_device = cu_seqlens_device_;
    return TimeOnLane(device_, compute_, [&](Lane& lane) {
      lane.Run([&](LaneContext& context) { kernel(*node.op, args, context); }, {});
    });
  }

 private:
  std::byte* Take(std::byte* base, int64_t bytes) {
    std::byte* at = base == nullptr ? nullptr : base + bytes_;
    bytes_ += RoundUp(std::max<int64_t>(bytes, 1), kAlignment);
    return at;
  }

  TensorView View(std::byte* base, const ValueSpec& value) {
    const int64_t rows = rows_.rows(value.extent);
    return {Take(base, rows * value.cols * SizeOf(value.dtype)), value.dtype, rows, value.cols,
            nullptr};
  }

  OpArgs Lay(const SegmentGraph& graph, const OpNode& node, const Segment& segment,
             const std::vector<UnitSpec>& units, Direction direction, std::byte* base) {
    OpArgs args;
    const bool backward = direction == Direction::kBackward;
    std::map<int, TensorView> values;
    const auto value = [&](int v) {
      const auto found = values.find(v);
      if (found != values.end()) return found->second;
      return values[v] = View(base, graph.values[v]);
    };
    for (const int v : node.inputs) args.inputs.push_back(value(v));
    for (const int v : node.outputs) args.outputs.push_back(value(v));
    for (const WeightRef& ref : node.weights) {
      const ParameterSpec& p = units[segment.units[ref.slot]].parameters[ref.parameter];
      args.weights.push_back({Take(base, p.bytes()), p.dtype, p.rows, p.cols, nullptr});
      if (!backward) continue;
      args.d_weights.push_back(
          {Take(base, p.elements() * 4), DType::kF32, p.rows, p.cols, nullptr});
      args.accumulate_weights.push_back(true);
    }
    if (backward) {
      for (const int v : node.outputs) args.d_outputs.push_back(View(base, graph.values[v]));
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const bool wanted = node.op->differentiable(static_cast<int>(i));
        const bool turns = node.op->in_place() && i == 0;
        TensorView d_input = wanted ? View(base, graph.values[node.inputs[i]]) : TensorView{};
        if (turns) d_input = args.d_outputs[0];
        args.d_inputs.push_back(d_input);
        args.accumulate_inputs.push_back(false);
      }
    }
    args.workspace = Take(base, KernelsFor(device_).WorkspaceBytes(*node.op, direction, rows_));
    cu_seqlens_device_ = reinterpret_cast<int32_t*>(Take(base, (rows_.documents + 1) * 4));
    return args;
  }

  // Writes a pattern of words over device memory.
  template <typename Word>
  void Fill(std::byte* target, int64_t bytes, const Word& word) {
    const int64_t piece = std::min(kCopyBytes, RoundUp(bytes, kAlignment));
    const std::unique_ptr<MemoryBlock> host = device_.AllocateHost(piece);
    auto* words = reinterpret_cast<int32_t*>(host->base());
    for (int64_t i = 0; i < piece / 4; ++i) words[i] = word(i);
    for (int64_t at = 0; at < bytes; at += piece) {
      h2d_.Copy(target + at, words, std::min(piece, bytes - at), {});
    }
    device_.Synchronize();
  }

  Device& device_;
  Lane& compute_;
  Lane& h2d_;
  RowCounts rows_;
  int64_t bytes_ = 0;
  int32_t* cu_seqlens_device_ = nullptr;
};

}  // namespace

HardwareRates MeasureRates(Device& device, const HardwareRates& given) {
  HardwareRates rates = given;
  const std::unique_ptr<Lane> compute = device.MakeLane(LaneKind::kCompute, "compute");
  const std::unique_ptr<Lane> up = device.MakeLane(LaneKind::kHostToDevice, "h2d");
  const std::unique_ptr<Lane> down = device.MakeLane(LaneKind::kDeviceToHost, "d2h");
  const std::unique_ptr<Lane> host_lane = device.MakeLane(LaneKind::kHost, "host");
  const std::unique_ptr<MemoryBlock> on_device = device.AllocateDevice(2 * kCopyBytes);
  const std::unique_ptr<MemoryBlock> on_host = device.AllocateHost(2 * kCopyBytes);
  std::memset(on_host->base(), 0, static_cast<size_t>(2 * kCopyBytes));
  const auto copy_up = [&](Lane& lane) {
    lane.Copy(on_device->base(), on_host->base(), kCopyBytes, {});
  };
  const auto copy_down = [&](Lane& lane) {
    lane.Copy(on_host->base() + kCopyBytes, on_device->base() + kCopyBytes, kCopyBytes, {});
  };
  copy_up(*up);
  device.Synchronize();
  const double both = TimeTogether(device, *up, copy_up, *down, copy_down);
  rates.h2d_bytes = kCopyBytes / std::max(TimeOnLane(device, *up, copy_up), both);
  rates.d2h_bytes = kCopyBytes / std::max(TimeOnLane(device, *down, copy_down), both);
  rates.host_bytes = MeasureTriad();
  rates.host_update = MeasureUpdate(device, *host_lane, *on_host, HostUnitKernels());
  rates.device_update = MeasureUpdate(device, *compute, *on_device, UnitKernelsFor(device));
  // An update on the device is limited by its memory: 26 bytes a parameter.
  rates.device_bytes = 26 * rates.device_update;
  return rates;
}

void MeasureOps(Device& device, const ModelGraph& model, const RowCounts& rows, CostModel& cost) {
  const std::unique_ptr<Lane> compute = device.MakeLane(LaneKind::kCompute, "compute");
  const std::unique_ptr<Lane> up = device.MakeLane(LaneKind::kHostToDevice, "h2d");
  OpTimer timer(device, *compute, *up, rows);
  std::set<std::string> seen;
  for (const Segment& segment : model.loss) {
    for (const OpNode& node : segment.graph->nodes) {
      if (!seen.insert(node.op->Signature()).second) continue;
      for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
        // Ops for planning only keep their estimates.
        if (!KernelsFor(device).Has(*node.op, direction)) continue;
        cost.SetMeasured(*node.op, direction, rows,
                         timer.Time(*segment.graph, node, segment, model.units, direction));
      }
    }
  }
}

}  // namespace lazytrain
