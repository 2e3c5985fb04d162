// Runs a kernel on random operands and compares it with a slow double-precision reference: values,
// gradients overwritten and added to, and the same bits whatever the number of threads.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "core/thread_pool.h"
#include "device/cpu/cpu_lane_context.h"
#include "ops/cpu/kernels.h"
#include "ops/kernel.h"
#include "tests/ops/buffer.h"

namespace lazytrain::testing {

// One array an operand, row-major.
using Arrays = std::vector<std::vector<double>>;

struct ReferenceGradients {
  Arrays inputs;  // empty where an input is not differentiable
  Arrays weights;
};

// An op in double precision.
struct Reference {
  std::function<Arrays(const Arrays& inputs, const Arrays& weights)> forward;
  std::function<ReferenceGradients(const Arrays& inputs, const Arrays& weights,
                                   const Arrays& d_outputs)>
      backward;
};

struct OutputSpec {
  DType dtype;
  int64_t rows;
  int64_t cols;
};

struct OpCase {
  const Op* op = nullptr;
  std::vector<Buffer> inputs;
  std::vector<Buffer> weights;
  std::vector<OutputSpec> outputs;
  // Empty for a loss, whose gradient begins with 1.
  std::vector<Buffer> d_outputs;
  std::vector<int32_t> cu_seqlens = {0};
  Reference reference;
  // Capacity of the workspace beyond the rows there are.
  int64_t spare_rows = 3;
  int64_t cached = 0;  // rows of the document that a cache holds
};

// What a call leaves behind.
struct Results {
  std::vector<Buffer> outputs;
  std::vector<Buffer> d_inputs;
  std::vector<Buffer> d_weights;
};

inline BatchLayout LayoutOf(const OpCase& test) {
  BatchLayout batch;
  batch.rows.tokens = test.inputs[0].rows();
  batch.rows.selected = test.outputs[0].rows;
  batch.rows.cached = test.cached;
  batch.rows.documents = static_cast<int64_t>(test.cu_seqlens.size()) - 1;
  for (size_t i = 1; i < test.cu_seqlens.size(); ++i) {
    const int64_t length = test.cu_seqlens[i] - test.cu_seqlens[i - 1];
    batch.rows.longest_document = std::max(batch.rows.longest_document, length);
  }
  batch.cu_seqlens_host = test.cu_seqlens.data();
  return batch;
}

inline std::vector<TensorView> Views(std::vector<Buffer>& buffers) {
  std::vector<TensorView> views;
  views.reserve(buffers.size());
  for (Buffer& buffer : buffers) views.push_back(buffer.view());
  return views;
}

inline void Call(const OpCase& test, Direction direction, int threads, OpArgs args) {
  args.batch = LayoutOf(test);
  RowCounts capacity = args.batch.rows;
  capacity.tokens += test.spare_rows;
  capacity.selected += test.spare_rows;
  Buffer workspace(DType::kU8, 1, test.op->WorkspaceBytes(direction, capacity));
  args.workspace = workspace.view().data;
  ThreadPool pool(threads);
  CpuLaneContext context(pool);
  cpu::Kernels().Find(*test.op, direction)(*test.op, args, context);
  EXPECT_TRUE(workspace.guard_intact()) << test.op->Signature();
}

inline Results RunForward(const OpCase& test, int threads) {
  std::vector<Buffer> inputs = test.inputs;
  std::vector<Buffer> weights = test.weights;
  Results results;
  for (const OutputSpec& spec : test.outputs) {
    results.outputs.emplace_back(spec.dtype, spec.rows, spec.cols);
  }
  if (test.op->in_place()) results.outputs[0] = test.inputs[0];
  OpArgs args;
  args.inputs = Views(inputs);
  args.outputs = Views(results.outputs);
  args.weights = Views(weights);
  if (test.op->in_place()) args.inputs[0] = args.outputs[0];
  Call(test, Direction::kForward, threads, args);
  return results;
}

// What a backward starts from: the forward's outputs, and gradients as `before` if given, else NaN.
inline Results BeforeBackward(const OpCase& test, const Results& forward, const Results* before) {
  Results results = forward;
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    const Buffer& input = test.inputs[i];
    const bool wanted = test.op->differentiable(static_cast<int>(i));
    results.d_inputs.push_back(wanted ? Buffer(input.dtype(), input.rows(), input.cols())
                                      : Buffer());
  }
  for (const Buffer& weight : test.weights) {
    results.d_weights.emplace_back(DType::kF32, weight.rows(), weight.cols());
  }
  if (before != nullptr) {
    results.d_inputs = before->d_inputs;
    results.d_weights = before->d_weights;
  }
  if (test.op->in_place()) results.d_inputs[0] = test.d_outputs[0];
  return results;
}

// Gradients are added to `before` if given, else overwrite NaN. `outputs` are those of the forward.
inline Results RunBackward(const OpCase& test, const Results& forward, int threads,
                           const Results* before) {
  std::vector<Buffer> inputs = test.inputs;
  std::vector<Buffer> weights = test.weights;
  std::vector<Buffer> d_outputs = test.d_outputs;
  Results results = BeforeBackward(test, forward, before);
  OpArgs args;
  args.inputs = Views(inputs);
  args.outputs = Views(results.outputs);
  args.weights = Views(weights);
  args.d_outputs = Views(d_outputs);
  args.d_inputs = Views(results.d_inputs);
  args.d_weights = Views(results.d_weights);
  if (test.op->in_place()) args.d_outputs[0] = args.d_inputs[0];
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!test.op->differentiable(static_cast<int>(i))) args.d_inputs[i] = TensorView{};
  }
  args.accumulate_inputs.assign(inputs.size(), before != nullptr && !test.op->in_place());
  args.accumulate_weights.assign(weights.size(), before != nullptr);
  Call(test, Direction::kBackward, threads, args);
  return results;
}

inline void ExpectSame(const std::vector<Buffer>& a, const std::vector<Buffer>& b,
                       const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(a[i].guard_intact()) << what << " " << i;
    EXPECT_TRUE(a[i].SameBits(b[i])) << what << " " << i << " depends on the number of threads";
  }
}

// Float32 sums, and one rounding to the buffer's dtype.
inline void ExpectClose(const Buffer& actual, const std::vector<double>& expected,
                        const std::string& what) {
  const bool is_short = actual.dtype() == DType::kBF16;
  EXPECT_LT(RelativeError(actual.values(), expected), is_short ? 0x1p-8 : 2e-6) << what;
  const std::vector<double> values = actual.values();
  double largest = 0.0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < values.size(); ++i) {
    const double rounding = is_short ? std::abs(expected[i]) * 0x1p-8 + 1e-4 * largest : 0.0;
    ASSERT_NEAR(values[i], expected[i], rounding + 1e-5 * largest) << what << " element " << i;
  }
}

inline Arrays ValuesOf(const std::vector<Buffer>& buffers) {
  Arrays arrays;
  for (const Buffer& buffer : buffers) arrays.push_back(buffer.values());
  return arrays;
}

inline void CheckForward(const OpCase& test) {
  SCOPED_TRACE(test.op->Signature());
  const Results results = RunForward(test, 1);
  const Arrays expected = test.reference.forward(ValuesOf(test.inputs), ValuesOf(test.weights));
  for (size_t i = 0; i < expected.size(); ++i) {
    ExpectClose(results.outputs[i], expected[i], "output " + std::to_string(i));
  }
  for (const int threads : {2, 5}) {
    ExpectSame(results.outputs, RunForward(test, threads).outputs, "output");
  }
}

inline void AddTo(std::vector<double>& target, const std::vector<double>& values) {
  for (size_t i = 0; i < target.size(); ++i) target[i] += values[i];
}

inline void ExpectGradients(const OpCase& test, const Results& results,
                            const ReferenceGradients& expected, const Results* before) {
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    if (!test.op->differentiable(static_cast<int>(i))) continue;
    std::vector<double> sum = expected.inputs[i];
    if (before != nullptr && !test.op->in_place()) AddTo(sum, before->d_inputs[i].values());
    ExpectClose(results.d_inputs[i], sum, "gradient of input " + std::to_string(i));
  }
  for (size_t i = 0; i < test.weights.size(); ++i) {
    std::vector<double> sum = expected.weights[i];
    if (before != nullptr) AddTo(sum, before->d_weights[i].values());
    ExpectClose(results.d_weights[i], sum, "gradient of weight " + std::to_string(i));
  }
}

inline void CheckBackward(const OpCase& test) {
  SCOPED_TRACE(test.op->Signature());
  const Results forward = RunForward(test, 1);
  const ReferenceGradients expected = test.reference.backward(
      ValuesOf(test.inputs), ValuesOf(test.weights), ValuesOf(test.d_outputs));
  const Results results = RunBackward(test, forward, 1, nullptr);
  ExpectGradients(test, results, expected, nullptr);
  std::mt19937 random(99);
  Results before;
  for (const Buffer& gradient : results.d_inputs) {
    before.d_inputs.push_back(
        Buffer::Random(gradient.dtype(), gradient.rows(), gradient.cols(), random, 0.5));
  }
  for (const Buffer& gradient : results.d_weights) {
    before.d_weights.push_back(
        Buffer::Random(DType::kF32, gradient.rows(), gradient.cols(), random, 0.5));
  }
  const Results added = RunBackward(test, forward, 1, &before);
  ExpectGradients(test, added, expected, &before);
  for (const int threads : {2, 5}) {
    const Results other = RunBackward(test, forward, threads, nullptr);
    ExpectSame(results.d_inputs, other.d_inputs, "gradient of input");
    ExpectSame(results.d_weights, other.d_weights, "gradient of weight");
    ExpectSame(results.outputs, other.outputs, "output of backward");
    ExpectSame(added.d_inputs, RunBackward(test, forward, threads, &before).d_inputs,
               "added gradient of input");
  }
}

inline double Objective(const OpCase& test, const Arrays& inputs, const Arrays& weights) {
  const Arrays outputs = test.reference.forward(inputs, weights);
  double sum = 0.0;
  // A loss is its own objective; outputs without a gradient (statistics) do not count.
  const size_t count = test.d_outputs.empty() ? 1 : test.d_outputs.size();
  for (size_t i = 0; i < count; ++i) {
    const std::vector<double> d = test.d_outputs.empty()
                                      ? std::vector<double>(outputs[i].size(), 1.0)
                                      : test.d_outputs[i].values();
    for (size_t k = 0; k < d.size(); ++k) sum += d[k] * outputs[i][k];
  }
  return sum;
}

// The reference's own gradients against central differences, at a few elements of each operand.
inline void CheckReference(const OpCase& test) {
  Arrays inputs = ValuesOf(test.inputs);
  Arrays weights = ValuesOf(test.weights);
  const ReferenceGradients gradients =
      test.reference.backward(inputs, weights, ValuesOf(test.d_outputs));
  std::mt19937 random(7);
  const auto check = [&](std::vector<double>& operand, const std::vector<double>& gradient) {
    for (int sample = 0; sample < 12 && !operand.empty(); ++sample) {
      const size_t i = random() % operand.size();
      const double value = operand[i];
      const double step = 1e-5;
      operand[i] = value + step;
      const double above = Objective(test, inputs, weights);
      operand[i] = value - step;
      const double below = Objective(test, inputs, weights);
      operand[i] = value;
      EXPECT_NEAR(gradient[i], (above - below) / (2.0 * step), 1e-7 + 1e-6 * std::abs(gradient[i]))
          << test.op->Signature() << " element " << i;
    }
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (test.op->differentiable(static_cast<int>(i))) check(inputs[i], gradients.inputs[i]);
  }
  for (size_t i = 0; i < weights.size(); ++i) check(weights[i], gradients.weights[i]);
}

inline void CheckOp(const OpCase& test) {
  CheckForward(test);
  CheckBackward(test);
}

}  // namespace lazytrain::testing
