// Which tiles of queries and keys meet under the causal mask and the window.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/error.h"
#include "ops/attention.h"
#include "ops/cpu/gemm.h"

namespace lazytrain::cpu {

inline constexpr int64_t kAttentionTile = Attention::kTile;
// Bounds the tiles on the stack.
inline constexpr int64_t kMaxHeadDim = 256;

inline void CheckHeadDim(const Attention& op) {
  if (op.head_dim > kMaxHeadDim) {
    throw RunError("attention with head_dim {} cannot run on the cpu backend; it takes up to {}",
                   op.head_dim, kMaxHeadDim);
  }
}

struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// Tokens [begin, end) of the micro-batch: one document.
struct Document {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t tiles() const { return CeilDiv(end - begin, kAttentionTile); }
  Interval tile(int64_t index) const {
    const int64_t first = begin + index * kAttentionTile;
    return {first, std::min(end, first + kAttentionTile)};
  }
};

inline Document DocumentOf(const int32_t* cu_seqlens, int64_t index) {
  return {cu_seqlens[index], cu_seqlens[index + 1]};
}

// The first key tile that any query of a tile sees; the last is the query tile itself.
inline int64_t FirstKeyTile(int64_t query_tile, int64_t window) {
  if (window <= 0) return 0;
  return std::max<int64_t>(0, query_tile * kAttentionTile - window + 1) / kAttentionTile;
}

// Past the last query tile that sees any key of a tile.
inline int64_t EndQueryTile(const Document& document, int64_t key_tile, int64_t window) {
  if (window <= 0) return document.tiles();
  const int64_t last_query = (key_tile + 1) * kAttentionTile - 1 + window - 1;
  return std::min(document.tiles(), last_query / kAttentionTile + 1);
}

// Columns of a tile of scores, counted from the tile's first key, that a query sees.
inline Interval VisibleKeys(int64_t query, const Interval& keys, int64_t window) {
  const int64_t end = std::clamp<int64_t>(query + 1 - keys.begin, 0, keys.size());
  const int64_t begin =
      window > 0 ? std::clamp<int64_t>(query - window + 1 - keys.begin, 0, end) : 0;
  return {begin, end};
}

// Adds a head's linear bias to a query's row of scores, which are multiplied by the scale later.
// Counted from the query, so that near keys, which matter most, get small exact biases.
inline void AddLinearBias(const Attention& op, int64_t head, int64_t query, const Interval& keys,
                          const Interval& visible, float* scores) {
  if (op.slopes.empty()) return;
  const float slope = op.slopes[static_cast<size_t>(head)] / op.scale;
  for (int64_t i = visible.begin; i < visible.end; ++i) {
    scores[i] = std::fma(slope, static_cast<float>(keys.begin + i - query), scores[i]);
  }
}

// Where a head's queries, keys and values lie, as [tokens, head_dim] matrices: side by side in qkv,
// or keys and values in a cache of all tokens of which qkv has those from first_query on.
template <typename T>
struct Heads {
  const Attention& op;
  const T* qkv;
  const T* cache = nullptr;
  int64_t first_query = 0;

  int64_t stride() const { return (op.q_heads + 2 * op.kv_heads) * op.head_dim; }
  int64_t kv_head(int64_t q_head) const { return q_head / (op.q_heads / op.kv_heads); }
  Matrix<T> Query(int64_t token, int64_t q_head) const {
    return {qkv + (token - first_query) * stride() + q_head * op.head_dim, stride(), 1};
  }
  Matrix<T> Key(int64_t token, int64_t q_head) const { return KeyOrValue(token, kv_head(q_head)); }
  Matrix<T> Value(int64_t token, int64_t q_head) const {
    return KeyOrValue(token, op.kv_heads + kv_head(q_head));
  }

 private:
  Matrix<T> KeyOrValue(int64_t token, int64_t head) const {
    if (cache == nullptr) {
      return {qkv + token * stride() + (op.q_heads + head) * op.head_dim, stride(), 1};
    }
    const int64_t cache_stride = 2 * op.kv_heads * op.head_dim;
    return {cache + token * cache_stride + head * op.head_dim, cache_stride, 1};
  }
};

}  // namespace lazytrain::cpu
