#include "ops/swiglu.h"

#include <array>

#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/vector_math.h"

namespace lazytrain::cpu {
namespace {

template <typename T>
void ForwardRow(const T* gate, const T* up, int64_t count, T* __restrict act) {
  for (int64_t i = 0; i < count; ++i) {
    const float g = ToFloat(gate[i]);
    act[i] = FromFloat<T>(g * Sigmoid(g) * ToFloat(up[i]));
  }
}

// silu'(g) = s (1 + g (1 - s)), s = sigmoid(g). By way of local arrays, so that the long
// expressions and the choice of adding or overwriting are separate, simple loops.
template <typename T>
void BackwardRow(const T* gate, const T* up, const T* d_act, int64_t count, bool accumulate,
                 T* d_gate, T* d_up) {
  constexpr int64_t kStretch = 256;
  std::array<float, kStretch> gate_part;
  std::array<float, kStretch> up_part;
  for (int64_t first = 0; first < count; first += kStretch) {
    const int64_t length = std::min(kStretch, count - first);
    for (int64_t i = 0; i < length; ++i) {
      const float g = ToFloat(gate[first + i]);
      const float s = Sigmoid(g);
      const float d = ToFloat(d_act[first + i]);
      gate_part[static_cast<size_t>(i)] =
          d * ToFloat(up[first + i]) * (s * (1.0f + g * (1.0f - s)));
      up_part[static_cast<size_t>(i)] = d * (g * s);
    }
    PutRow(gate_part.data(), length, accumulate, d_gate + first);
    PutRow(up_part.data(), length, accumulate, d_up + first);
  }
}

}  // namespace

void SwigluForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const int64_t n = static_cast<const Swiglu&>(base).intermediate;
  const TensorView& gate_up = args.inputs[0];
  WithElementType(gate_up.dtype, [&](auto element) {
    using T = decltype(element);
    ForBlocks(Threads(context), gate_up.rows, BlockRows(n), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* gate = gate_up.as<const T>() + row * 2 * n;
        ForwardRow(gate, gate + n, n, args.outputs[0].as<T>() + row * n);
      }
    });
  });
}

void SwigluBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  const int64_t n = static_cast<const Swiglu&>(base).intermediate;
  const TensorView& gate_up = args.inputs[0];
  if (!args.d_inputs[0].present()) return;
  WithElementType(gate_up.dtype, [&](auto element) {
    using T = decltype(element);
    ForBlocks(Threads(context), gate_up.rows, BlockRows(n), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* gate = gate_up.as<const T>() + row * 2 * n;
        T* d_gate = args.d_inputs[0].as<T>() + row * 2 * n;
        BackwardRow(gate, gate + n, args.d_outputs[0].as<const T>() + row * n, n,
                    args.accumulate_inputs[0], d_gate, d_gate + n);
      }
    });
  });
}

}  // namespace lazytrain::cpu
