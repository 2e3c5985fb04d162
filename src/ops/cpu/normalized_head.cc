#include "ops/normalized_head.h"

#include <algorithm>
#include <cmath>

#include "core/units.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/vector_math.h"

namespace lazytrain::cpu {
namespace {

template <typename T>
float Length(const T* row, int64_t cols) {
  const float squares = LaneSum(cols, [&](int64_t i) { return ToFloat(row[i]) * ToFloat(row[i]); });
  return std::max(std::sqrt(squares), 1e-12f);
}

// `memory` gets the weight with rows of length 1.
TensorView Normalize(ThreadPool& threads, const TensorView& weight, void* memory) {
  TensorView normalized = weight;
  normalized.data = memory;
  WithElementType(weight.dtype, [&](auto element) {
    using T = decltype(element);
    ForBlocks(threads, weight.rows, BlockRows(weight.cols), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = weight.as<const T>() + row * weight.cols;
        T* to = normalized.as<T>() + row * weight.cols;
        const float inverse = 1.0f / Length(from, weight.cols);
        for (int64_t i = 0; i < weight.cols; ++i) to[i] = FromFloat<T>(ToFloat(from[i]) * inverse);
      }
    });
  });
  return normalized;
}

// target (+)= the gradient of the weight, from that of the normalised weight.
void NormalizeBackward(ThreadPool& threads, const TensorView& weight, const TensorView& gradient,
                       bool accumulate, const TensorView& target) {
  const int64_t cols = weight.cols;
  WithElementType(weight.dtype, [&](auto element) {
    using T = decltype(element);
    ForBlocks(threads, weight.rows, BlockRows(cols), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* w = weight.as<const T>() + row * cols;
        const float* g = gradient.as<const float>() + row * cols;
        float* d = target.as<float>() + row * cols;
        const float inverse = 1.0f / Length(w, cols);
        const float dot = LaneSum(cols, [&](int64_t i) { return ToFloat(w[i]) * g[i]; });
        const float along = dot * inverse * inverse;
        for (int64_t i = 0; i < cols; ++i) {
          Put(d[i], inverse * (g[i] - ToFloat(w[i]) * along), accumulate);
        }
      }
    });
  });
}

}  // namespace

void NormalizedLmHeadLossForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const NormalizedLmHeadLoss&>(base);
  auto* memory = static_cast<std::byte*>(args.workspace);
  OpArgs inner = args;
  inner.weights[0] = Normalize(Threads(context), args.weights[0], memory);
  inner.workspace = memory + RoundUp(args.weights[0].bytes(), kAlignment);
  LmHeadLossForward(op.loss, inner, context);
}

void NormalizedLmHeadLossBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const NormalizedLmHeadLoss&>(base);
  auto* memory = static_cast<std::byte*>(args.workspace);
  OpArgs inner = args;
  inner.weights[0] = Normalize(Threads(context), args.weights[0], memory);
  memory += RoundUp(args.weights[0].bytes(), kAlignment);
  TensorView gradient = args.d_weights[0];
  if (gradient.present()) gradient.data = memory;
  inner.d_weights[0] = gradient;
  inner.accumulate_weights[0] = false;
  inner.workspace = memory + RoundUp(args.weights[0].size() * SizeOf(DType::kF32), kAlignment);
  LmHeadLossBackward(op.loss, inner, context);
  if (gradient.present()) {
    NormalizeBackward(Threads(context), args.weights[0], gradient, args.accumulate_weights[0],
                      args.d_weights[0]);
  }
}

void NormalizedLinearForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const NormalizedLinear&>(base);
  OpArgs inner = args;
  inner.weights[0] = Normalize(Threads(context), args.weights[0], args.workspace);
  inner.workspace = nullptr;
  LinearForward(op.linear, inner, context);
}

}  // namespace lazytrain::cpu
