// A GPU for measuring kernels: memory, random operands, times.
#pragma once

#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/units.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_lane_context.h"
#include "ops/cuda/rows.h"
#include "ops/kernel.h"

namespace lazytrain {

// A GPU, its memory handed out and never taken back, and a clock.
class KernelBench {
 public:
  // Measures kernels whose name has `only` in it.
  explicit KernelBench(std::string only)
      : only_(std::move(only)),
        device_(cuda::MakeCudaDevice({})),
        memory_(device_->AllocateDevice(int64_t{40} << 30)),
        lane_(device_->MakeLane(LaneKind::kCompute, "compute")),
        start_(device_->MakeEvent()),
        end_(device_->MakeEvent()) {
    noise_.resize(1 << 22);
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float& value : noise_) value = normal(random);
    flushed_ = {Take(kFlushed), DType::kF32, kFlushed / 4 / kFlushCols, kFlushCols};
    flush_sums_ = {Take(kFlushCols * 4), DType::kF32, 1, kFlushCols};
    flush_workspace_ = Take(cuda::ColumnSumsWorkspace(flushed_.rows, kFlushCols));
    first_ = used_;
    fmt::print("{}; {} held at the start\n", device_->description(),
               FormatBytes(device_->UsedBytes()));
    fmt::print("{:<40} {:>9} {:>9} {:>9}\n", "kernel", "ms", "GB/s", "TFLOP/s");
  }

  Lane& lane() { return *lane_; }

  void* Take(int64_t bytes) {
    void* address = memory_->base() + used_;
    used_ += RoundUp(bytes, kAlignment);
    if (used_ > memory_->bytes()) throw RunError("the benchmark needs more memory");
    return address;
  }
  void Reset() { used_ = first_; }

  // Normal values, repeated.
  TensorView Random(DType dtype, int64_t rows, int64_t cols, float scale = 1.0f) {
    const TensorView view{nullptr, dtype, rows, cols};
    TensorView there = view;
    there.data = Take(view.bytes());
    std::vector<std::byte> pattern(noise_.size() * static_cast<size_t>(SizeOf(dtype)));
    for (size_t i = 0; i < noise_.size(); ++i) {
      const float value = noise_[i] * scale;
      if (dtype == DType::kBF16) {
        reinterpret_cast<BFloat16*>(pattern.data())[i] = ToBFloat16(value);
      } else {
        reinterpret_cast<float*>(pattern.data())[i] = value;
      }
    }
    const auto size = static_cast<int64_t>(pattern.size());
    for (int64_t at = 0; at < view.bytes(); at += size) {
      cuda::Check(
          cudaMemcpy(there.as<std::byte>() + at, pattern.data(),
                     static_cast<size_t>(std::min(size, view.bytes() - at)), cudaMemcpyDefault),
          "filling");
    }
    return there;
  }
  TensorView Ids(const std::vector<int32_t>& ids) {
    const auto rows = static_cast<int64_t>(ids.size());
    TensorView view{Take(rows * 4), DType::kI32, rows, 1};
    cuda::Check(cudaMemcpy(view.data, ids.data(), ids.size() * 4, cudaMemcpyDefault), "filling");
    return view;
  }

  bool Wants(const std::string& name) const { return name.find(only_) != std::string::npos; }

  // Median time of `work`; before each run caches are filled by reading something else (writing
  // would leave it to `work` to write that back).
  double Seconds(const std::function<void(LaneContext&)>& work) {
    std::vector<double> seconds;
    int runs = kRuns;
    for (int run = 0; run < runs + 2; ++run) {
      lane_->Run(
          [&](LaneContext& context) {
            cuda::ColumnSums(static_cast<cuda::CudaLaneContext&>(context), flushed_, false,
                             flush_sums_, flush_workspace_);
          },
          {});
      lane_->Record(*start_);
      lane_->Run(work, {});
      lane_->Record(*end_);
      device_->Synchronize();
      if (end_->seconds() - start_->seconds() > kLongSeconds) runs = kLongRuns;
      if (run >= 2) seconds.push_back(end_->seconds() - start_->seconds());
    }
    std::nth_element(seconds.begin(), seconds.begin() + runs / 2, seconds.end());
    return seconds[static_cast<size_t>(runs / 2)];
  }

  void Report(const std::string& name, const OpCost& cost,
              const std::function<void(LaneContext&)>& work) {
    Print(name, cost, Seconds(work));
  }

  // The same for a kernel's call that other operands can take the place of.
  void Report(const std::string& name, const OpCost& cost, const OpArgs& args,
              const std::function<void(const OpArgs&, LaneContext&)>& call) {
    const double once = Seconds([&](LaneContext& context) { call(args, context); });
    if (once >= kShortSeconds) return Print(name, cost, once);
    const int64_t used = used_;
    std::vector<OpArgs> sets = {args};
    while (static_cast<double>(sets.size()) * cost.bytes < kUncachedBytes) {
      sets.push_back(Others(args));
    }
    const double seconds = Seconds([&](LaneContext& context) {
      for (size_t i = 0; i < kCalls; ++i) call(sets[i % sets.size()], context);
    });
    used_ = used;
    Print(name, cost, seconds / kCalls);
  }

 private:
  static constexpr int kRuns = 11;
  // Calls that take longer are measured less often.
  static constexpr double kLongSeconds = 0.05;
  static constexpr int kLongRuns = 5;
  // Shorter calls are measured kCalls at a time, one behind the other, as they run in a step: else
  // the time to start a kernel on an idle GPU is much of the result. They take turns with operands
  // of so many bytes, which no cache holds.
  static constexpr double kShortSeconds = 0.0003;
  static constexpr int kCalls = 8;
  static constexpr int64_t kUncachedBytes = 400'000'000;

  // As `args`, with values in other places.
  OpArgs Others(OpArgs args) {
    std::map<void*, void*> moved;
    for (auto* views : {&args.inputs, &args.outputs, &args.d_outputs, &args.d_inputs}) {
      for (TensorView& view : *views) {
        if (!view.present() || view.dtype == DType::kI32) continue;
        void*& to = moved[view.data];
        if (to == nullptr) to = Random(view.dtype, view.rows, view.cols).data;
        view.data = to;
      }
    }
    return args;
  }

  static void Print(const std::string& name, const OpCost& cost, double seconds) {
    fmt::print("{:<40} {:>9.3f} {:>9.0f} {:>9.1f}\n", name, seconds * 1e3,
               cost.bytes / seconds / 1e9, cost.flops / seconds / 1e12);
    std::fflush(stdout);
  }

  std::string only_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<MemoryBlock> memory_;
  std::unique_ptr<Lane> lane_;
  std::unique_ptr<Event> start_;
  std::unique_ptr<Event> end_;
  static constexpr int64_t kFlushed = int64_t{256} << 20;
  static constexpr int64_t kFlushCols = 8192;
  int64_t used_ = 0;
  int64_t first_ = 0;  // behind what every measurement needs
  TensorView flushed_;
  TensorView flush_sums_;
  void* flush_workspace_ = nullptr;
  std::vector<float> noise_;
};

}  // namespace lazytrain
