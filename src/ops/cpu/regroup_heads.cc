#include "ops/regroup_heads.h"

#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"

namespace lazytrain::cpu {

void RegroupHeadsForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const RegroupHeads&>(base);
  const TensorView& x = args.inputs[0];
  WithElementType(x.dtype, [&](auto element) {
    using T = decltype(element);
    ForBlocks(Threads(context), x.rows, BlockRows(x.cols), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = x.as<const T>() + row * x.cols;
        T* to = args.outputs[0].as<T>() + row * x.cols;
        for (int64_t head = 0; head < op.q_heads + 2 * op.kv_heads; ++head) {
          const T* source = from + op.Source(head) * op.head_dim;
          std::copy(source, source + op.head_dim, to + head * op.head_dim);
        }
      }
    });
  });
}

void RegroupHeadsBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const RegroupHeads&>(base);
  const TensorView& d_qkv = args.d_outputs[0];
  const TensorView& d_x = args.d_inputs[0];
  if (!d_x.present()) return;
  WithElementType(d_qkv.dtype, [&](auto element) {
    using T = decltype(element);
    ForBlocks(Threads(context), d_qkv.rows, BlockRows(d_qkv.cols), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = d_qkv.as<const T>() + row * d_qkv.cols;
        T* to = d_x.as<T>() + row * d_qkv.cols;
        for (int64_t head = 0; head < op.q_heads + 2 * op.kv_heads; ++head) {
          const T* source = from + head * op.head_dim;
          T* target = to + op.Source(head) * op.head_dim;
          for (int64_t i = 0; i < op.head_dim; ++i) {
            Put(target[i], ToFloat(source[i]), args.accumulate_inputs[0]);
          }
        }
      }
    });
  });
}

}  // namespace lazytrain::cpu
