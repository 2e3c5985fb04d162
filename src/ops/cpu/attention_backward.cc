// Backward attention: one task a document and a query head, so that every sum of a gradient is made
// by one thread in the order of the tiles; key heads then add up their query heads in order.
#include <array>
#include <cmath>

#include "ops/attention.h"
#include "ops/cpu/attention_tiles.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/vector_math.h"

namespace lazytrain::cpu {
namespace {

constexpr int64_t kTile = kAttentionTile;

// Float32 gradients in the workspace: [tokens, q_heads * head_dim] each; keys and values have a row
// of their own for every query head.
struct Gradients {
  float* query;
  float* key;
  float* value;
  float* delta;  // [tokens, q_heads]: d_attn times attn, summed over a head
};

Gradients SplitWorkspace(const Attention& op, int64_t tokens, void* workspace) {
  auto* base = static_cast<float*>(workspace);
  const int64_t size = tokens * op.q_heads * op.head_dim;
  return {base, base + size, base + 2 * size, base + 3 * size};
}

struct Scratch {
  using Left = std::array<float, PackedLeftSize(kTile, kMaxHeadDim)>;
  using Right = std::array<float, PackedRightSize(kMaxHeadDim, kTile)>;
  alignas(64) Left query_left;
  alignas(64) Left d_attn_left;
  alignas(64) Right rows_right;  // queries or d_attn, packed the other way
  alignas(64) Right keys_across;
  alignas(64) Right values_across;
  alignas(64) Right keys_along;
  alignas(64) std::array<float, kTile * kTile> probabilities;
  alignas(64) std::array<float, kTile * kTile> d_scores;
  alignas(64) std::array<float, PackedLeftSize(kTile, kTile)> packed;
};

template <typename T>
struct Problem {
  const Attention& op;
  Heads<T> heads;
  const T* d_attn;
  const float* lse;
  Gradients gradients;

  int64_t stride() const { return op.q_heads * op.head_dim; }
  Matrix<T> DAttn(int64_t token, int64_t head) const {
    return {d_attn + token * stride() + head * op.head_dim, stride(), 1};
  }
  float* Row(float* gradient, int64_t token, int64_t head) const {
    return gradient + token * stride() + head * op.head_dim;
  }
};

// Scores become probabilities, d_probabilities (in d_scores) become d_scores.
template <typename T>
void SoftmaxBackward(const Problem<T>& problem, const Interval& queries, const Interval& keys,
                     int64_t head, Scratch& scratch) {
  const Attention& op = problem.op;
  for (int64_t row = 0; row < queries.size(); ++row) {
    const int64_t token = queries.begin + row;
    const Interval visible = VisibleKeys(token, keys, op.window);
    const float lse = problem.lse[token * op.q_heads + head];
    const float delta = problem.gradients.delta[token * op.q_heads + head];
    float* p = scratch.probabilities.data() + row * kTile;
    float* ds = scratch.d_scores.data() + row * kTile;
    for (float* tile : {p, ds}) {
      std::fill(tile, tile + visible.begin, 0.0f);
      std::fill(tile + visible.end, tile + keys.size(), 0.0f);
    }
    AddLinearBias(op, head, token, keys, visible, p);
    for (int64_t i = visible.begin; i < visible.end; ++i) {
      p[i] = Exp(std::fma(p[i], op.scale, -lse));
      ds[i] = p[i] * (ds[i] - delta) * op.scale;
    }
  }
}

// What a tile of queries and a tile of keys, already packed, give to each other's gradients. The
// diagonal tile is the first that any key meets.
template <typename T>
void BackwardTiles(const Problem<T>& problem, const Interval& queries, const Interval& keys,
                   int64_t head, bool diagonal, bool first_keys, Scratch& scratch) {
  const Attention& op = problem.op;
  const int64_t d = op.head_dim;
  const int64_t m = queries.size();
  const int64_t n = keys.size();
  const Matrix<float> p{scratch.probabilities.data(), kTile, 1};
  const Matrix<float> ds{scratch.d_scores.data(), kTile, 1};
  const Matrix<T> query = problem.heads.Query(queries.begin, head);
  const Matrix<T> d_attn = problem.DAttn(queries.begin, head);
  float* packed = scratch.packed.data();
  const Part scores = diagonal ? Part::kLowerOutput : Part::kWhole;
  const Part lower = diagonal ? Part::kLowerLeft : Part::kWhole;
  const Part upper = diagonal ? Part::kUpperLeft : Part::kWhole;
  PackLeft(query, m, d, scratch.query_left.data());
  MultiplyPacked(m, n, d, scratch.query_left.data(), scratch.keys_across.data(),
                 scratch.probabilities.data(), kTile, false, scores);
  PackLeft(d_attn, m, d, scratch.d_attn_left.data());
  MultiplyPacked(m, n, d, scratch.d_attn_left.data(), scratch.values_across.data(),
                 scratch.d_scores.data(), kTile, false, scores);
  SoftmaxBackward(problem, queries, keys, head, scratch);

  const Gradients& gradients = problem.gradients;
  PackLeft(p.Transposed(), n, m, packed);
  PackRight(d_attn, m, d, scratch.rows_right.data());
  MultiplyPacked(n, d, m, packed, scratch.rows_right.data(),
                 problem.Row(gradients.value, keys.begin, head), problem.stride(), !diagonal,
                 upper);
  PackLeft(ds.Transposed(), n, m, packed);
  PackRight(query, m, d, scratch.rows_right.data());
  MultiplyPacked(n, d, m, packed, scratch.rows_right.data(),
                 problem.Row(gradients.key, keys.begin, head), problem.stride(), !diagonal, upper);
  PackLeft(ds, m, n, packed);
  MultiplyPacked(m, d, n, packed, scratch.keys_along.data(),
                 problem.Row(gradients.query, queries.begin, head), problem.stride(), !first_keys,
                 lower);
}

template <typename T>
void BackwardDocument(const Problem<T>& problem, const Document& document, int64_t head) {
  Scratch scratch;
  const int64_t d = problem.op.head_dim;
  const int64_t window = problem.op.window;
  for (int64_t j = 0; j < document.tiles(); ++j) {
    const Interval keys = document.tile(j);
    const Matrix<T> key = problem.heads.Key(keys.begin, head);
    PackRight(key.Transposed(), d, keys.size(), scratch.keys_across.data());
    PackRight(key, keys.size(), d, scratch.keys_along.data());
    PackRight(problem.heads.Value(keys.begin, head).Transposed(), d, keys.size(),
              scratch.values_across.data());
    for (int64_t i = j; i < EndQueryTile(document, j, window); ++i) {
      BackwardTiles(problem, document.tile(i), keys, head, i == j, j == FirstKeyTile(i, window),
                    scratch);
    }
  }
}

template <typename T>
void ComputeDelta(const Attention& op, const T* attn, const T* d_attn, int64_t tokens, float* delta,
                  ThreadPool& threads) {
  const int64_t d = op.head_dim;
  ForBlocks(threads, tokens * op.q_heads, BlockRows(d), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* a = attn + row * d;
      const T* b = d_attn + row * d;
      delta[row] = LaneSum(d, [&](int64_t i) { return ToFloat(a[i]) * ToFloat(b[i]); });
    }
  });
}

// The gradients of one token, summed over the query heads of each key head, into d_qkv.
template <typename T>
void StoreToken(const Problem<T>& problem, int64_t token, bool accumulate, T* d_qkv) {
  const Attention& op = problem.op;
  const int64_t d = op.head_dim;
  const int64_t group = op.q_heads / op.kv_heads;
  T* target = d_qkv + token * problem.heads.stride();
  const float* query = problem.Row(problem.gradients.query, token, 0);
  for (int64_t i = 0; i < op.q_heads * d; ++i) Put(target[i], query[i], accumulate);
  target += op.q_heads * d;
  for (float* gradient : {problem.gradients.key, problem.gradients.value}) {
    for (int64_t head = 0; head < op.kv_heads; ++head) {
      float* sum = problem.Row(gradient, token, head * group);
      for (int64_t member = 1; member < group; ++member) {
        for (int64_t i = 0; i < d; ++i) sum[i] += sum[member * d + i];
      }
      for (int64_t i = 0; i < d; ++i) Put(target[i], sum[i], accumulate);
      target += d;
    }
  }
}

}  // namespace

void AttentionBackward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const Attention&>(base);
  CheckHeadDim(op);
  const TensorView& qkv = args.inputs[0];
  const TensorView& d_qkv = args.d_inputs[0];
  if (!d_qkv.present() || qkv.rows == 0) return;
  ThreadPool& threads = Threads(context);
  WithElementType(qkv.dtype, [&](auto element) {
    using T = decltype(element);
    const Gradients gradients = SplitWorkspace(op, qkv.rows, args.workspace);
    const T* d_attn = args.d_outputs[0].as<const T>();
    const Problem<T> problem{
        op, {op, qkv.as<const T>()}, d_attn, args.outputs[1].as<const float>(), gradients};
    ComputeDelta(op, args.outputs[0].as<const T>(), d_attn, qkv.rows, gradients.delta, threads);
    threads.Run(args.batch.rows.documents * op.q_heads, [&](int64_t task) {
      BackwardDocument(problem, DocumentOf(args.batch.cu_seqlens_host, task / op.q_heads),
                       task % op.q_heads);
    });
    ForBlocks(threads, qkv.rows, BlockRows(qkv.cols), [&](int64_t begin, int64_t end) {
      for (int64_t token = begin; token < end; ++token) {
        StoreToken(problem, token, args.accumulate_inputs[0], d_qkv.as<T>());
      }
    });
  });
}

}  // namespace lazytrain::cpu
