#include "ops/rope.h"

#include <array>
#include <cmath>

#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"

namespace lazytrain::cpu {
namespace {

// Frequencies whose cosines and sines are held at once.
constexpr int64_t kFrequencies = 64;

struct Rotation {
  std::array<float, kFrequencies> cosine;
  std::array<float, kFrequencies> sine;
};

// `direction` is 1 to turn forward, -1 to turn back.
Rotation RotationOf(const Rope& op, const std::vector<float>& inverse, int32_t position,
                    int64_t first, int64_t count, float direction) {
  Rotation rotation;
  for (int64_t i = 0; i < count; ++i) {
    const float angle = static_cast<float>(position) * inverse[static_cast<size_t>(first + i)];
    rotation.cosine[static_cast<size_t>(i)] = std::cos(angle) * op.scaling;
    rotation.sine[static_cast<size_t>(i)] = std::sin(angle) * op.scaling * direction;
  }
  return rotation;
}

// Frequencies that belong to documents of one length.
struct LengthFrequencies {
  int64_t tokens = 0;
  std::vector<float> inverse;
};

// The frequencies of a token: those of its document's length, which `last` keeps for the next
// token.
const std::vector<float>& FrequenciesOf(const Rope& op, int64_t row, const BatchLayout& batch,
                                        LengthFrequencies& last) {
  if (op.long_beyond == 0) return op.inverse_frequencies;
  const int32_t* begin = batch.cu_seqlens_host;
  const int32_t* end = begin + batch.rows.documents + 1;
  const int32_t* next = std::upper_bound(begin, end, static_cast<int32_t>(batch.first_row + row));
  // Rows behind the last document are padding.
  if (next == end) return op.inverse_frequencies;
  const int64_t tokens = *next - *(next - 1) + batch.rows.cached;
  if (tokens != last.tokens) last = {tokens, op.FrequenciesFor(tokens)};
  return last.inverse;
}

// Pairs [first, first + count) of all turning heads of a row, where a pair is two neighbours.
template <typename T>
void TurnNeighbours(const Rope& op, const Rotation& rotation, int64_t first, int64_t count,
                    const T* source, T* target, bool accumulate) {
  for (int64_t head = 0; head < op.q_heads + op.kv_heads; ++head) {
    const int64_t start = head * op.head_dim + 2 * first;
    for (int64_t i = 0; i < count; ++i) {
      const auto k = static_cast<size_t>(i);
      const int64_t low = start + 2 * i;
      const float x = ToFloat(source[low]);
      const float y = ToFloat(source[low + 1]);
      Put(target[low], x * rotation.cosine[k] - y * rotation.sine[k], accumulate);
      Put(target[low + 1], y * rotation.cosine[k] + x * rotation.sine[k], accumulate);
    }
  }
}

// Channels [first, first + count) and their partners `half` later, of all turning heads of a row.
template <typename T>
void TurnRow(const Rope& op, const Rotation& rotation, int64_t first, int64_t count,
             const T* source, T* target, bool accumulate) {
  const auto half = static_cast<int64_t>(op.inverse_frequencies.size());
  for (int64_t head = 0; head < op.q_heads + op.kv_heads; ++head) {
    const int64_t low = head * op.head_dim + first;
    const int64_t high = low + half;
    // By way of local arrays: source and target may be the same row.
    std::array<float, kFrequencies> a;
    std::array<float, kFrequencies> b;
    for (int64_t i = 0; i < count; ++i) {
      const auto k = static_cast<size_t>(i);
      const float x = ToFloat(source[low + i]);
      const float y = ToFloat(source[high + i]);
      a[k] = x * rotation.cosine[k] - y * rotation.sine[k];
      b[k] = y * rotation.cosine[k] + x * rotation.sine[k];
    }
    PutRow(a.data(), count, accumulate, target + low);
    PutRow(b.data(), count, accumulate, target + high);
  }
}

// What does not turn: channels past the rotary ones, and the values.
template <typename T>
void PassRow(const Rope& op, const T* source, T* target, bool accumulate) {
  const auto rotary = static_cast<int64_t>(2 * op.inverse_frequencies.size());
  for (int64_t head = 0; head < op.q_heads + 2 * op.kv_heads; ++head) {
    const int64_t start = head < op.q_heads + op.kv_heads ? rotary : 0;
    for (int64_t i = head * op.head_dim + start; i < (head + 1) * op.head_dim; ++i) {
      Put(target[i], ToFloat(source[i]), accumulate);
    }
  }
}

void Turn(const Rope& op, const TensorView& source, const OpArgs& args, float direction,
          bool accumulate, const TensorView& target, ThreadPool& threads) {
  const auto* positions = args.inputs[1].as<const int32_t>();
  const bool in_place = source.data == target.data;
  const auto frequencies = static_cast<int64_t>(op.inverse_frequencies.size());
  const int64_t cols = (op.q_heads + 2 * op.kv_heads) * op.head_dim;
  WithElementType(source.dtype, [&](auto element) {
    using T = decltype(element);
    ForBlocks(threads, source.rows, BlockRows(cols), [&](int64_t begin, int64_t end) {
      LengthFrequencies last;
      for (int64_t row = begin; row < end; ++row) {
        const T* from = source.as<const T>() + row * cols;
        T* to = target.as<T>() + row * cols;
        const std::vector<float>& inverse = FrequenciesOf(op, row, args.batch, last);
        const bool add = accumulate && !in_place;
        if (!in_place) PassRow(op, from, to, accumulate);
        for (int64_t first = 0; first < frequencies; first += kFrequencies) {
          const int64_t count = std::min(kFrequencies, frequencies - first);
          const Rotation rotation =
              RotationOf(op, inverse, positions[row], first, count, direction);
          const auto turn = op.interleaved ? TurnNeighbours<T> : TurnRow<T>;
          turn(op, rotation, first, count, from, to, add);
        }
      }
    });
  });
}

}  // namespace

void RopeForward(const Op& base, const OpArgs& args, LaneContext& context) {
  Turn(static_cast<const Rope&>(base), args.inputs[0], args, 1.0f, false, args.outputs[0],
       Threads(context));
}

void RopeBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  if (!args.d_inputs[0].present()) return;
  Turn(static_cast<const Rope&>(base), args.d_outputs[0], args, -1.0f, args.accumulate_inputs[0],
       args.d_inputs[0], Threads(context));
}

}  // namespace lazytrain::cpu
