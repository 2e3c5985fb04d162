#include "ops/rms_norm.h"

#include <cmath>

#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/vector_math.h"

namespace lazytrain::cpu {
namespace {

template <typename T>
float InverseRms(const T* x, int64_t hidden, float eps) {
  const float squares = LaneSum(hidden, [&](int64_t i) { return ToFloat(x[i]) * ToFloat(x[i]); });
  return 1.0f / std::sqrt(squares / static_cast<float>(hidden) + eps);
}

template <typename T, typename S>
void ForwardRow(const T* x, const S* scale, int64_t hidden, float eps, T* y) {
  const float inverse = InverseRms(x, hidden, eps);
  for (int64_t i = 0; i < hidden; ++i) {
    y[i] = FromFloat<T>(ToFloat(x[i]) * inverse * ToFloat(scale[i]));
  }
}

// With n = x / rms: d_x = (g - n mean(g n)) / rms, where g = d_y scale; d_scale = sum of d_y n.
template <typename T, typename S>
void BackwardRow(const T* x, const S* scale, const T* d_y, int64_t hidden, float eps,
                 bool accumulate, T* d_x, float* d_scale) {
  const float inverse = InverseRms(x, hidden, eps);
  if (d_scale != nullptr) {
    for (int64_t i = 0; i < hidden; ++i) {
      d_scale[i] += ToFloat(d_y[i]) * (ToFloat(x[i]) * inverse);
    }
  }
  if (d_x == nullptr) return;
  const float dot = LaneSum(
      hidden, [&](int64_t i) { return ToFloat(d_y[i]) * ToFloat(scale[i]) * ToFloat(x[i]); });
  const float along = dot * inverse * inverse / static_cast<float>(hidden);
  for (int64_t i = 0; i < hidden; ++i) {
    const float g = ToFloat(d_y[i]) * ToFloat(scale[i]);
    Put(d_x[i], inverse * (g - ToFloat(x[i]) * along), accumulate);
  }
}

// d_scale (+)= the partial rows, added in order.
void SumPartials(ThreadPool& threads, const float* partials, int64_t count, bool accumulate,
                 const TensorView& d_scale) {
  constexpr int64_t kColumns = 256;
  const int64_t hidden = d_scale.size();
  ForBlocks(threads, hidden, kColumns, [&](int64_t begin, int64_t end) {
    auto* target = d_scale.as<float>();
    if (!accumulate) std::fill(target + begin, target + end, 0.0f);
    for (int64_t block = 0; block < count; ++block) {
      for (int64_t i = begin; i < end; ++i) target[i] += partials[block * hidden + i];
    }
  });
}

}  // namespace

void RmsNormForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const RmsNorm&>(base);
  const TensorView& x = args.inputs[0];
  const TensorView& scale = args.weights[0];
  WithElementType(x.dtype, [&](auto element) {
    using T = decltype(element);
    WithElementType(scale.dtype, [&](auto scale_element) {
      using S = decltype(scale_element);
      ForBlocks(Threads(context), x.rows, BlockRows(op.hidden), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          ForwardRow(x.as<const T>() + row * op.hidden, scale.as<const S>(), op.hidden, op.eps,
                     args.outputs[0].as<T>() + row * op.hidden);
        }
      });
    });
  });
}

void RmsNormBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const RmsNorm&>(base);
  const int64_t hidden = op.hidden;
  const TensorView& x = args.inputs[0];
  const TensorView& scale = args.weights[0];
  const TensorView& d_x = args.d_inputs[0];
  const bool want_scale = args.d_weights[0].present();
  auto* partials = static_cast<float*>(args.workspace);
  WithElementType(x.dtype, [&](auto element) {
    using T = decltype(element);
    WithElementType(scale.dtype, [&](auto scale_element) {
      using S = decltype(scale_element);
      ForBlocks(Threads(context), x.rows, RmsNorm::kRowBlock, [&](int64_t begin, int64_t end) {
        float* partial = want_scale ? partials + begin / RmsNorm::kRowBlock * hidden : nullptr;
        if (want_scale) std::fill_n(partial, hidden, 0.0f);
        for (int64_t row = begin; row < end; ++row) {
          BackwardRow(x.as<const T>() + row * hidden, scale.as<const S>(),
                      args.d_outputs[0].as<const T>() + row * hidden, hidden, op.eps,
                      args.accumulate_inputs[0],
                      d_x.present() ? d_x.as<T>() + row * hidden : nullptr, partial);
        }
      });
    });
  });
  if (want_scale) {
    SumPartials(Threads(context), partials, CeilDiv(x.rows, RmsNorm::kRowBlock),
                args.accumulate_weights[0], args.d_weights[0]);
  }
}

}  // namespace lazytrain::cpu
