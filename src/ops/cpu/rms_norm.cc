#include "ops/rms_norm.h"

#include "ops/cpu/kernels.h"
#include "ops/cpu/rms_norm_rows.h"
#include "ops/cpu/rows.h"

namespace lazytrain::cpu {
namespace {

// The residual's gradient, where it has a buffer of its own.
template <typename T>
void PassOnRow(const T* d_y, int64_t count, bool accumulate, T* d_residual) {
  for (int64_t i = 0; i < count; ++i) Put(d_residual[i], ToFloat(d_y[i]), accumulate);
}

}  // namespace

void RmsNormForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const RmsNorm&>(base);
  const RmsNormRow norm{op.hidden, op.eps, op.scale_offset};
  const TensorView& x = args.inputs[0];
  const TensorView& scale = args.weights[0];
  WithElementType(x.dtype, [&](auto element) {
    using T = decltype(element);
    WithElementType(scale.dtype, [&](auto scale_element) {
      using S = decltype(scale_element);
      ForBlocks(Threads(context), x.rows, BlockRows(op.hidden), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const T* residual =
              op.has_residual ? args.inputs[1].as<const T>() + row * op.hidden : nullptr;
          RmsNormForwardRow(norm, x.as<const T>() + row * op.hidden, scale.as<const S>(), residual,
                            args.outputs[0].as<T>() + row * op.hidden);
        }
      });
    });
  });
}

void RmsNormBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const RmsNorm&>(base);
  const RmsNormRow norm{op.hidden, op.eps, op.scale_offset};
  const int64_t hidden = op.hidden;
  const TensorView& x = args.inputs[0];
  const TensorView& scale = args.weights[0];
  const TensorView& d_y = args.d_outputs[0];
  const TensorView& d_x = args.d_inputs[0];
  const bool want_scale = args.d_weights[0].present();
  const bool pass_on =
      op.has_residual && args.d_inputs[1].present() && args.d_inputs[1].data != d_y.data;
  auto* partials = static_cast<float*>(args.workspace);
  WithElementType(x.dtype, [&](auto element) {
    using T = decltype(element);
    WithElementType(scale.dtype, [&](auto scale_element) {
      using S = decltype(scale_element);
      ForBlocks(Threads(context), x.rows, RmsNorm::kRowBlock, [&](int64_t begin, int64_t end) {
        float* partial = want_scale ? partials + begin / RmsNorm::kRowBlock * hidden : nullptr;
        if (want_scale) std::fill_n(partial, hidden, 0.0f);
        for (int64_t row = begin; row < end; ++row) {
          const T* d = d_y.as<const T>() + row * hidden;
          RmsNormBackwardRow(norm, x.as<const T>() + row * hidden, scale.as<const S>(), d,
                             args.accumulate_inputs[0],
                             d_x.present() ? d_x.as<T>() + row * hidden : nullptr, partial);
          if (pass_on) {
            PassOnRow(d, hidden, args.accumulate_inputs[1],
                      args.d_inputs[1].as<T>() + row * hidden);
          }
        }
      });
    });
  });
  if (want_scale) {
    SumPartialRows(Threads(context), partials, CeilDiv(x.rows, RmsNorm::kRowBlock), hidden,
                   args.accumulate_weights[0], args.d_weights[0]);
  }
}

}  // namespace lazytrain::cpu
