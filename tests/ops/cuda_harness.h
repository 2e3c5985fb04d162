// Runs a CUDA kernel and the virtual accelerator's on the same random operands and compares them:
// values, gradients overwritten and added to, and the same bits in every run.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/units.h"
#include "device/cuda/cuda_device.h"
#include "ops/cuda/kernels.h"
#include "tests/ops/harness.h"

namespace lazytrain::testing {

// What two implementations may differ by.
struct Tolerance {
  double norm = 0;     // of the whole: norm of the difference over norm
  double element = 0;  // of one element, over the largest
  double own = 0;      // and over itself
};

// Sums in another order; for bfloat16, and one rounding that may fall the other way.
inline Tolerance ToleranceFor(DType dtype) {
  if (dtype == DType::kBF16) return {4e-3, 1e-3, 0x1p-7};
  return {5e-6, 1e-5, 1e-5};
}

// A GPU with memory for one call at a time. Everything in it holds NaN before a call.
class Gpu {
 public:
  explicit Gpu(int64_t bytes = int64_t{1} << 28)
      : device_(cuda::MakeCudaDevice({})),
        memory_(device_->AllocateDevice(bytes)),
        lane_(device_->MakeLane(LaneKind::kCompute, "compute")) {}

  Device& device() { return *device_; }
  Lane& lane() { return *lane_; }

  // To be called before the operands of a call are placed.
  void Clear() {
    device_->Synchronize();
    EXPECT_EQ(cudaMemset(memory_->base(), 0xff, static_cast<size_t>(memory_->bytes())),
              cudaSuccess);
    used_ = 0;
    placed_.clear();
  }

  // A copy of the buffer and its guard on the device; empty buffers are operands that are not
  // there.
  TensorView Place(Buffer& buffer) {
    if (buffer.rows() * buffer.cols() == 0) return {};
    const TensorView view = buffer.view();
    const int64_t bytes = view.bytes() + kGuard;
    TensorView there = view;
    there.data = Take(bytes);
    EXPECT_EQ(cudaMemcpy(there.data, view.data, static_cast<size_t>(bytes), cudaMemcpyDefault),
              cudaSuccess);
    placed_.push_back({view.data, there.data, bytes});
    return there;
  }
  std::vector<TensorView> Place(std::vector<Buffer>& buffers) {
    std::vector<TensorView> views;
    for (Buffer& buffer : buffers) views.push_back(Place(buffer));
    return views;
  }
  void* Take(int64_t bytes) {
    void* address = memory_->base() + used_;
    used_ += RoundUp(bytes, kAlignment);
    EXPECT_LE(used_, memory_->bytes()) << "the test needs a larger Gpu";
    return address;
  }

  // Copies and fills may still be on their way, and lanes do not wait for them.
  static void AwaitPlaced() { EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess); }

  // Copies every buffer back to where it came from.
  void Fetch() {
    device_->Synchronize();
    for (const Placed& p : placed_) {
      EXPECT_EQ(cudaMemcpy(p.host, p.device, static_cast<size_t>(p.bytes), cudaMemcpyDefault),
                cudaSuccess);
    }
  }

 private:
  static constexpr int64_t kGuard = 256;  // as Buffer's
  struct Placed {
    void* host;
    void* device;
    int64_t bytes;
  };

  std::unique_ptr<Device> device_;
  std::unique_ptr<MemoryBlock> memory_;
  std::unique_ptr<Lane> lane_;
  int64_t used_ = 0;
  std::vector<Placed> placed_;
};

inline Gpu& TheGpu() {
  static Gpu gpu;
  return gpu;
}

// Calls a kernel whose operands are placed.
inline void CallCuda(Gpu& gpu, const OpCase& test, Direction direction, OpArgs args) {
  std::vector<int32_t> cu_seqlens = test.cu_seqlens;
  args.batch = LayoutOf(test);
  void* on_device = gpu.Take(static_cast<int64_t>(cu_seqlens.size() * sizeof(int32_t)));
  EXPECT_EQ(cudaMemcpy(on_device, cu_seqlens.data(), cu_seqlens.size() * sizeof(int32_t),
                       cudaMemcpyDefault),
            cudaSuccess);
  args.batch.cu_seqlens_device = static_cast<const int32_t*>(on_device);
  RowCounts capacity = args.batch.rows;
  capacity.tokens += test.spare_rows;
  capacity.selected += test.spare_rows;
  Buffer workspace(DType::kU8, 1, cuda::Kernels().WorkspaceBytes(*test.op, direction, capacity));
  args.workspace = gpu.Place(workspace).data;
  const KernelFunction kernel = cuda::Kernels().Find(*test.op, direction);
  gpu.AwaitPlaced();
  gpu.lane().Run([&](LaneContext& context) { kernel(*test.op, args, context); }, {});
  gpu.Fetch();
  EXPECT_TRUE(workspace.guard_intact()) << test.op->Signature();
}

inline Results RunForwardCuda(const OpCase& test) {
  Gpu& gpu = TheGpu();
  gpu.Clear();
  std::vector<Buffer> inputs = test.inputs;
  std::vector<Buffer> weights = test.weights;
  Results results;
  for (const OutputSpec& spec : test.outputs) {
    results.outputs.emplace_back(spec.dtype, spec.rows, spec.cols);
  }
  if (test.op->in_place()) results.outputs[0] = test.inputs[0];
  OpArgs args;
  args.inputs = gpu.Place(inputs);
  args.outputs = gpu.Place(results.outputs);
  args.weights = gpu.Place(weights);
  if (test.op->in_place()) args.inputs[0] = args.outputs[0];
  CallCuda(gpu, test, Direction::kForward, args);
  return results;
}

// As RunBackward of harness.h.
inline Results RunBackwardCuda(const OpCase& test, const Results& forward, const Results* before) {
  Gpu& gpu = TheGpu();
  gpu.Clear();
  std::vector<Buffer> inputs = test.inputs;
  std::vector<Buffer> weights = test.weights;
  std::vector<Buffer> d_outputs = test.d_outputs;
  Results results = BeforeBackward(test, forward, before);
  OpArgs args;
  args.inputs = gpu.Place(inputs);
  args.outputs = gpu.Place(results.outputs);
  args.weights = gpu.Place(weights);
  args.d_outputs = gpu.Place(d_outputs);
  args.d_inputs = gpu.Place(results.d_inputs);
  args.d_weights = gpu.Place(results.d_weights);
  if (test.op->in_place()) args.d_outputs[0] = args.d_inputs[0];
  args.accumulate_inputs.assign(inputs.size(), before != nullptr && !test.op->in_place());
  args.accumulate_weights.assign(weights.size(), before != nullptr);
  CallCuda(gpu, test, Direction::kBackward, args);
  return results;
}

inline void ExpectNear(const Buffer& actual, const Buffer& expected, const Tolerance& tolerance,
                       const std::string& what) {
  const std::vector<double> a = actual.values();
  const std::vector<double> e = expected.values();
  EXPECT_TRUE(actual.guard_intact()) << what;
  ASSERT_EQ(a.size(), e.size()) << what;
  double norm = 0.0;
  double largest = 0.0;
  for (const double value : e) {
    norm += value * value;
    largest = std::max(largest, std::abs(value));
  }
  if (norm > 0.0) {
    EXPECT_LT(RelativeError(a, e), tolerance.norm) << what;
  }
  for (size_t i = 0; i < a.size(); ++i) {
    const double allowed = tolerance.element * largest + tolerance.own * std::abs(e[i]) + 1e-30;
    ASSERT_NEAR(a[i], e[i], allowed) << what << " element " << i << " of " << a.size();
  }
}

inline void ExpectNear(const std::vector<Buffer>& actual, const std::vector<Buffer>& expected,
                       const Tolerance* tolerance, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i) {
    ExpectNear(actual[i], expected[i],
               tolerance == nullptr ? ToleranceFor(actual[i].dtype()) : *tolerance,
               what + " " + std::to_string(i));
  }
}

inline void ExpectSameBits(const std::vector<Buffer>& a, const std::vector<Buffer>& b,
                           const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(a[i].SameBits(b[i])) << what << " " << i << " differs from run to run";
  }
}

inline void CompareForward(const OpCase& test, const Tolerance* tolerance = nullptr) {
  SCOPED_TRACE(test.op->Signature());
  const Results expected = RunForward(test, 2);
  const Results actual = RunForwardCuda(test);
  ExpectNear(actual.outputs, expected.outputs, tolerance, "output");
  ExpectSameBits(actual.outputs, RunForwardCuda(test).outputs, "output");
}

inline Results RandomGradients(const Results& like) {
  std::mt19937 random(99);
  Results before;
  for (const Buffer& gradient : like.d_inputs) {
    before.d_inputs.push_back(
        gradient.rows() * gradient.cols() == 0
            ? Buffer()
            : Buffer::Random(gradient.dtype(), gradient.rows(), gradient.cols(), random, 0.5));
  }
  for (const Buffer& gradient : like.d_weights) {
    before.d_weights.push_back(
        Buffer::Random(DType::kF32, gradient.rows(), gradient.cols(), random, 0.5));
  }
  return before;
}

// `tolerance` is that of every gradient.
inline void CompareBackward(const OpCase& test, const Tolerance* tolerance = nullptr) {
  SCOPED_TRACE(test.op->Signature());
  const Results forward = RunForward(test, 2);
  const Results expected = RunBackward(test, forward, 2, nullptr);
  const Results before = RandomGradients(expected);
  for (const Results* added_to : {static_cast<const Results*>(nullptr), &before}) {
    const Results cpu = RunBackward(test, forward, 2, added_to);
    const Results actual = RunBackwardCuda(test, forward, added_to);
    ExpectNear(actual.d_inputs, cpu.d_inputs, tolerance, "gradient of input");
    ExpectNear(actual.d_weights, cpu.d_weights, tolerance, "gradient of weight");
    ExpectNear(actual.outputs, cpu.outputs, nullptr, "output of backward");
    const Results again = RunBackwardCuda(test, forward, added_to);
    ExpectSameBits(actual.d_inputs, again.d_inputs, "gradient of input");
    ExpectSameBits(actual.d_weights, again.d_weights, "gradient of weight");
    ExpectSameBits(actual.outputs, again.outputs, "output of backward");
  }
}

inline void CompareOp(const OpCase& test, const Tolerance* tolerance = nullptr) {
  CompareForward(test, tolerance);
  CompareBackward(test, tolerance);
}

// For INSTANTIATE_TEST_SUITE_P.
inline std::string DTypeName(const ::testing::TestParamInfo<DType>& parameter) {
  return std::string(Name(parameter.param));
}

// Random whole numbers in [0, bound).
inline Buffer RandomIds(int64_t rows, int64_t bound, std::mt19937& random) {
  std::vector<double> values(static_cast<size_t>(rows));
  for (double& value : values) value = static_cast<double>(random() % bound);
  return Buffer::Of(DType::kI32, rows, 1, values);
}

// Cumulative lengths of documents.
inline std::vector<int32_t> CuSeqlens(const std::vector<int32_t>& lengths) {
  std::vector<int32_t> cu = {0};
  for (const int32_t length : lengths) cu.push_back(cu.back() + length);
  return cu;
}

}  // namespace lazytrain::testing
