#include "ops/qk_norm.h"

#include "ops/cpu/kernels.h"
#include "ops/cpu/rms_norm_rows.h"
#include "ops/cpu/rows.h"

namespace lazytrain::cpu {
namespace {

// Queries (0) or keys (1): where they lie in a row, and how they are normalised.
struct Part {
  int64_t begin;
  int64_t end;
  RmsNormRow norm;
};

Part PartOf(const QkNorm& op, int which) {
  const int64_t q = op.q_heads * op.head_dim;
  const int64_t kv = op.kv_heads * op.head_dim;
  const RmsNormRow norm{op.group(which), op.eps, op.scale_offset};
  return which == 0 ? Part{0, q, norm} : Part{q, q + kv, norm};
}

}  // namespace

void QkNormForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const QkNorm&>(base);
  const TensorView& x = args.inputs[0];
  WithElementType(x.dtype, [&](auto element) {
    using T = decltype(element);
    WithElementType(args.weights[0].dtype, [&](auto scale_element) {
      using S = decltype(scale_element);
      ForBlocks(Threads(context), x.rows, BlockRows(x.cols), [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          const T* from = x.as<const T>() + row * x.cols;
          T* to = args.outputs[0].as<T>() + row * x.cols;
          for (const int which : {0, 1}) {
            const Part part = PartOf(op, which);
            const auto* scale = args.weights[static_cast<size_t>(which)].as<const S>();
            for (int64_t at = part.begin; at < part.end; at += part.norm.hidden) {
              RmsNormForwardRow<T, S>(part.norm, from + at, scale, nullptr, to + at);
            }
          }
          const int64_t values = PartOf(op, 1).end;
          std::copy(from + values, from + x.cols, to + values);
        }
      });
    });
  });
}

void QkNormBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const QkNorm&>(base);
  const TensorView& x = args.inputs[0];
  const TensorView& d_x = args.d_inputs[0];
  const bool accumulate = args.accumulate_inputs[0];
  const bool want_scales = args.d_weights[0].present() || args.d_weights[1].present();
  auto* partials = static_cast<float*>(args.workspace);
  const int64_t stride = op.group(0) + op.group(1);
  WithElementType(x.dtype, [&](auto element) {
    using T = decltype(element);
    WithElementType(args.weights[0].dtype, [&](auto scale_element) {
      using S = decltype(scale_element);
      ForBlocks(Threads(context), x.rows, QkNorm::kRowBlock, [&](int64_t begin, int64_t end) {
        float* partial = want_scales ? partials + begin / QkNorm::kRowBlock * stride : nullptr;
        if (want_scales) std::fill_n(partial, stride, 0.0f);
        for (int64_t row = begin; row < end; ++row) {
          const T* from = x.as<const T>() + row * x.cols;
          const T* d_y = args.d_outputs[0].as<const T>() + row * x.cols;
          T* to = d_x.present() ? d_x.as<T>() + row * x.cols : nullptr;
          for (const int which : {0, 1}) {
            const Part part = PartOf(op, which);
            const auto* scale = args.weights[static_cast<size_t>(which)].as<const S>();
            float* d_scale = want_scales ? partial + which * op.group(0) : nullptr;
            for (int64_t at = part.begin; at < part.end; at += part.norm.hidden) {
              RmsNormBackwardRow<T, S>(part.norm, from + at, scale, d_y + at, accumulate,
                                       to != nullptr ? to + at : nullptr, d_scale);
            }
          }
          for (int64_t i = PartOf(op, 1).end; to != nullptr && i < x.cols; ++i) {
            Put(to[i], ToFloat(d_y[i]), accumulate);
          }
        }
      });
    });
  });
  for (const int which : {0, 1}) {
    const auto w = static_cast<size_t>(which);
    if (!args.d_weights[w].present()) continue;
    SumPartialRows(Threads(context), partials + which * op.group(0),
                   CeilDiv(x.rows, QkNorm::kRowBlock), stride, args.accumulate_weights[w],
                   args.d_weights[w]);
  }
}

}  // namespace lazytrain::cpu
