#include "ops/linear.h"

#include <array>

#include "ops/cpu/gemm.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"

namespace lazytrain::cpu {
namespace {

// d_bias (+)= column sums of d_y: over blocks of rows first, then over blocks in order.
void AddColumnSums(ThreadPool& threads, const TensorView& d_y, bool accumulate,
                   const TensorView& d_bias) {
  constexpr int64_t kColumns = 64;
  constexpr int64_t kRows = 64;
  ForBlocks(threads, d_y.cols, kColumns, [&](int64_t begin, int64_t end) {
    float* target = d_bias.as<float>() + begin;
    const int64_t count = end - begin;
    if (!accumulate) std::fill_n(target, count, 0.0f);
    for (int64_t first = 0; first < d_y.rows; first += kRows) {
      std::array<float, kColumns> block = {};
      for (int64_t row = first; row < std::min(d_y.rows, first + kRows); ++row) {
        AddRow(d_y, row, begin, count, block.data());
      }
      for (int64_t i = 0; i < count; ++i) target[i] += block[static_cast<size_t>(i)];
    }
  });
}

// The residual's gradient, where it has a buffer of its own.
void PassOn(ThreadPool& threads, const TensorView& d_y, bool accumulate,
            const TensorView& d_residual) {
  ForBlocks(threads, d_y.rows, BlockRows(d_y.cols), [&](int64_t begin, int64_t end) {
    constexpr int64_t kColumns = 256;
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t col = 0; col < d_y.cols; col += kColumns) {
        const int64_t count = std::min(kColumns, d_y.cols - col);
        std::array<float, kColumns> values = {};
        AddRow(d_y, row, col, count, values.data());
        StoreRow(d_residual, row, col, count, values.data(), accumulate);
      }
    }
  });
}

}  // namespace

void LinearForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const Linear&>(base);
  const TensorView& y = args.outputs[0];
  Multiply(Threads(context), {args.inputs[0], false}, {args.weights[0], true},
           [&](int64_t row, int64_t col, int64_t count, float* values) {
             if (op.has_bias) AddRow(args.weights[1], 0, col, count, values);
             if (op.has_residual) AddRow(args.inputs[1], row, col, count, values);
             StoreRow(y, row, col, count, values, false);
           });
}

void LinearBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const Linear&>(base);
  ThreadPool& threads = Threads(context);
  const TensorView& d_y = args.d_outputs[0];
  const TensorView& d_x = args.d_inputs[0];
  const TensorView& d_weight = args.d_weights[0];
  const auto store_into = [](const TensorView& target, bool accumulate) {
    return [target, accumulate](int64_t row, int64_t col, int64_t count, float* values) {
      StoreRow(target, row, col, count, values, accumulate);
    };
  };
  if (d_weight.present()) {
    Multiply(threads, {d_y, true}, {args.inputs[0], false},
             store_into(d_weight, args.accumulate_weights[0]));
  }
  if (op.has_bias && args.d_weights[1].present()) {
    AddColumnSums(threads, d_y, args.accumulate_weights[1], args.d_weights[1]);
  }
  if (d_x.present()) {
    Multiply(threads, {d_y, false}, {args.weights[0], false},
             store_into(d_x, args.accumulate_inputs[0]));
  }
  // Last: the products above read d_y.
  if (op.has_residual && args.d_inputs[1].present() && args.d_inputs[1].data != d_y.data) {
    PassOn(threads, d_y, args.accumulate_inputs[1], args.d_inputs[1]);
  }
}

}  // namespace lazytrain::cpu
