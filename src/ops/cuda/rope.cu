#include <algorithm>

#include "ops/cuda/documents.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/vectors.cuh"
#include "ops/rope.h"

namespace lazytrain::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTokens = 2;  // of a block at a time
constexpr int kBlocks = 3;  // of a multiprocessor: a thread has 80 registers
// Frequencies travel with the launch; its arguments hold 4 kB.
constexpr int kMaxFrequencies = 256;

struct RopeShape {
  int turning_heads;  // queries and keys
  int heads;          // and values
  int head_dim;
  int frequencies;  // of one set
  bool interleaved;
  bool has_long;
  bool in_place;
  bool accumulate;
  float scaling;
  float direction;       // 1 forward, -1 back
  float dynamic_factor;  // 0: none
  int64_t first_row;     // of the rows, in the micro-batch
  int64_t cached;        // tokens of the document before the micro-batch
  int64_t long_beyond;
  Documents documents;
  float inverse[kMaxFrequencies];
  float long_inverse[kMaxFrequencies];
};

struct Angle {
  float cosine;
  float sine;
};

// Where a frequency's angle lies: threads of a warp that want angle k of their N neighbouring ones
// each find them side by side.
template <int N>
__device__ inline int Place(const RopeShape& shape, int frequency) {
  return frequency % N * (shape.frequencies / N) + frequency / N;
}

// N neighbouring pairs of channels (low, high), half a head's rotary channels apart.
struct PairsAt {
  int pair;  // the first, in its head
  int low;   // where its first channel lies in the row

  __device__ PairsAt(const RopeShape& shape, int i) {
    const int head = i / shape.frequencies;
    pair = i - head * shape.frequencies;
    low = head * shape.head_dim + pair;
  }
};

template <typename T, int N>
struct Pairs {
  Vec<T, N> x;
  Vec<T, N> y;

  __device__ void Load(const RopeShape& shape, const PairsAt& at, const T* from) {
    x = Vec<T, N>::Load(from + at.low);
    y = Vec<T, N>::Load(from + at.low + shape.frequencies);
  }
  __device__ void Turn(const RopeShape& shape, const PairsAt& at, const Angle* turns, T* to) const {
    const bool add = shape.accumulate && !shape.in_place;
    float a[N];
    float b[N];
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const Angle turn = turns[k * (shape.frequencies / N) + at.pair / N];
      a[k] = AsFloat(x.at[k]) * turn.cosine - AsFloat(y.at[k]) * turn.sine;
      b[k] = AsFloat(y.at[k]) * turn.cosine + AsFloat(x.at[k]) * turn.sine;
    }
    PutVec<T, N>(to + at.low, a, add);
    PutVec<T, N>(to + at.low + shape.frequencies, b, add);
  }
};

// A pair is two neighbours.
template <typename T, int N>
__device__ void TurnNeighbours(const RopeShape& shape, const Angle* turns, const T* from, T* to) {
  const bool add = shape.accumulate && !shape.in_place;
  for (int i = static_cast<int>(threadIdx.x); i < shape.turning_heads * shape.frequencies;
       i += kThreads) {
    const int head = i / shape.frequencies;
    const int pair = i - head * shape.frequencies;
    const int low = head * shape.head_dim + 2 * pair;
    const Angle turn = turns[Place<N>(shape, pair)];
    const float x = AsFloat(from[low]);
    const float y = AsFloat(from[low + 1]);
    const float a[1] = {x * turn.cosine - y * turn.sine};
    const float b[1] = {y * turn.cosine + x * turn.sine};
    PutVec<T, 1>(to + low, a, add);
    PutVec<T, 1>(to + low + 1, b, add);
  }
}

// What does not turn: channels past the rotary ones, and the values.
template <typename T>
__device__ void PassOn(const RopeShape& shape, const T* from, T* to) {
  const int rotary = 2 * shape.frequencies;
  for (int i = static_cast<int>(threadIdx.x); i < shape.heads * shape.head_dim; i += kThreads) {
    const int head = i / shape.head_dim;
    if (head < shape.turning_heads && i - head * shape.head_dim < rotary) continue;
    const float value[1] = {AsFloat(from[i])};
    PutVec<T, 1>(to + i, value, shape.accumulate);
  }
}

// The turn of frequency i at a token of the micro-batch.
__device__ inline Angle AngleAt(const RopeShape& shape, int64_t row, int position, int i) {
  int64_t tokens = 0;
  if (shape.long_beyond > 0) {
    tokens = shape.documents.LengthAt(shape.first_row + row) + shape.cached;
  }
  const bool is_long = shape.long_beyond > 0 && tokens > shape.long_beyond;
  float inverse = is_long && shape.has_long ? shape.long_inverse[i] : shape.inverse[i];
  if (is_long && shape.dynamic_factor > 0.0f) {
    const float ratio = static_cast<float>(tokens) / static_cast<float>(shape.long_beyond);
    const float stretch = shape.dynamic_factor * (ratio - 1.0f) + 1.0f;
    const auto share = static_cast<float>(i) / static_cast<float>(shape.frequencies - 1);
    if (stretch != 1.0f) inverse *= powf(stretch, -share);
  }
  float sine = 0.0f;
  float cosine = 0.0f;
  sincosf(static_cast<float>(position) * inverse, &sine, &cosine);
  return {cosine * shape.scaling, sine * shape.scaling * shape.direction};
}

// What a block does at once: kTokens tokens, and of each as many pairs as its threads hold.
template <int N>
struct Portion {
  int64_t row0;
  int first;  // pair of this thread

  __device__ Portion() : row0(int64_t{blockIdx.x} * kTokens), first(threadIdx.x * N) {}
  // The pairs of a token's heads need at least one portion, if only to pass on what does not turn.
  __device__ bool starts_tokens() const { return first < kThreads * N; }
  __device__ bool ends_tokens(int pairs) const {
    return first - static_cast<int>(threadIdx.x) * N + kThreads * N >= pairs;
  }
  __device__ Portion Next(int pairs) const {
    Portion next = *this;
    if (ends_tokens(pairs)) {
      next.row0 += int64_t{gridDim.x} * kTokens;
      next.first = static_cast<int>(threadIdx.x) * N;
    } else {
      next.first += kThreads * N;
    }
    return next;
  }
};

// Blocks run all at once, each over many tokens: while it turns a portion, the next is on its way.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads, kBlocks)
    TurnKernel(const __grid_constant__ RopeShape shape, int64_t rows, const int32_t* positions,
               const T* from, T* to) {
  // By turns, so that one barrier is enough.
  __shared__ Angle turns[2][kTokens][kMaxFrequencies];
  const int64_t stride = int64_t{shape.heads} * shape.head_dim;
  const int pairs = shape.interleaved ? 0 : shape.turning_heads * shape.frequencies;
  const auto count = [&](const Portion<N>& portion) {
    return static_cast<int>(min(int64_t{kTokens}, rows - portion.row0));
  };
  const auto load = [&](const Portion<N>& portion, Pairs<T, N>(&held)[kTokens]) {
    const PairsAt at(shape, portion.first);
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      if (portion.first < pairs && portion.row0 + t < rows) {
        held[t].Load(shape, at, from + (portion.row0 + t) * stride);
      }
    }
  };
  // Of the token whose angle this thread makes first.
  const auto load_position = [&](const Portion<N>& portion) {
    const int64_t row = portion.row0 + static_cast<int>(threadIdx.x) / shape.frequencies;
    return row < min(rows, portion.row0 + kTokens) ? positions[row] : 0;
  };
  Portion<N> current;
  Pairs<T, N> held[kTokens];
  load(current, held);
  int position = load_position(current);
  for (int turn = 0; current.row0 < rows;) {
    const Portion<N> next = current.Next(pairs);
    Pairs<T, N> coming[kTokens];
    load(next, coming);
    if (current.starts_tokens()) {
      turn ^= 1;
      const int angles = count(current) * shape.frequencies;
      for (int a = static_cast<int>(threadIdx.x); a < angles; a += kThreads) {
        const int t = a / shape.frequencies;
        const int frequency = a - t * shape.frequencies;
        if (a >= kThreads) position = positions[current.row0 + t];
        turns[turn][t][Place<N>(shape, frequency)] =
            AngleAt(shape, current.row0 + t, position, frequency);
      }
      __syncthreads();
    }
    if (next.starts_tokens()) position = load_position(next);
    const PairsAt at(shape, current.first);
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      if (current.first < pairs && t < count(current)) {
        held[t].Turn(shape, at, turns[turn][t], to + (current.row0 + t) * stride);
      }
    }
    for (int t = 0; current.ends_tokens(pairs) && t < count(current); ++t) {
      const int64_t start = (current.row0 + t) * stride;
      if (!shape.in_place) PassOn(shape, from + start, to + start);
      if (shape.interleaved) {
        TurnNeighbours<T, N>(shape, turns[turn][t], from + start, to + start);
      }
    }
    current = next;
#pragma unroll
    for (int t = 0; t < kTokens; ++t) held[t] = coming[t];
  }
}

RopeShape ShapeOf(const Rope& op, const BatchLayout& batch, float direction) {
  const size_t frequencies = op.inverse_frequencies.size();
  if (frequencies > kMaxFrequencies) {
    RefuseSize("rope over channels", static_cast<int64_t>(2 * frequencies), 2 * kMaxFrequencies);
  }
  RopeShape shape = {};
  shape.turning_heads = static_cast<int>(op.q_heads + op.kv_heads);
  shape.heads = static_cast<int>(op.q_heads + 2 * op.kv_heads);
  shape.head_dim = static_cast<int>(op.head_dim);
  shape.frequencies = static_cast<int>(frequencies);
  shape.interleaved = op.interleaved;
  shape.has_long = !op.long_inverse_frequencies.empty();
  shape.scaling = op.scaling;
  shape.direction = direction;
  shape.long_beyond = op.long_beyond;
  shape.dynamic_factor = static_cast<float>(op.dynamic_factor);
  shape.first_row = batch.first_row;
  shape.cached = batch.rows.cached;
  shape.documents = DocumentsOf(batch);
  std::copy(op.inverse_frequencies.begin(), op.inverse_frequencies.end(), shape.inverse);
  std::copy(op.long_inverse_frequencies.begin(), op.long_inverse_frequencies.end(),
            shape.long_inverse);
  return shape;
}

void TurnAll(const Rope& op, const OpArgs& args, const TensorView& from, bool accumulate,
             float direction, const TensorView& to, LaneContext& context) {
  if (from.rows == 0) return;
  const CudaLaneContext& cuda = Cuda(context);
  RopeShape shape = ShapeOf(op, args.batch, direction);
  shape.in_place = from.data == to.data;
  shape.accumulate = accumulate;
  WithElementType(from.dtype, [&](auto element) {
    using T = decltype(element);
    const bool aligned =
        IsAligned(from.data) && IsAligned(to.data) && op.head_dim % (16 / sizeof(T)) == 0;
    const unsigned blocks = std::min(Blocks(from.rows, kTokens),
                                     static_cast<unsigned>(kBlocks * cuda.multiprocessors()));
    WithWidth<T>(shape.frequencies, aligned, [&](auto width) {
      TurnKernel<T, decltype(width)::value><<<blocks, kThreads, 0, cuda.stream()>>>(
          shape, from.rows, args.inputs[1].as<const int32_t>(), from.as<const T>(), to.as<T>());
    });
  });
  CheckLaunch("rope");
}

}  // namespace

void RopeForward(const Op& base, const OpArgs& args, LaneContext& context) {
  TurnAll(static_cast<const Rope&>(base), args, args.inputs[0], false, 1.0f, args.outputs[0],
          context);
}

void RopeBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  if (!args.d_inputs[0].present()) return;
  TurnAll(static_cast<const Rope&>(base), args, args.d_outputs[0], args.accumulate_inputs[0], -1.0f,
          args.d_inputs[0], context);
}

}  // namespace lazytrain::cuda
