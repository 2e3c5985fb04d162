// Forward attention: one task a tile of queries and a head, keys tile by tile with a running
// maximum and sum (Milakov and Gimelshein 2018; Dao et al. 2022).
#include "ops/attention.h"

#include <array>
#include <cmath>
#include <limits>

#include "ops/cached_attention.h"
#include "ops/cpu/attention_tiles.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"
#include "ops/cpu/vector_math.h"

namespace lazytrain::cpu {
namespace {

// A task's share of the work, in the workspace: which queries, and where their document begins.
struct QueryTile {
  int32_t document_begin = 0;
  int32_t document_end = 0;
  int64_t index = 0;  // of the tile in its document
};
static_assert(sizeof(QueryTile) == 16);  // what Attention::WorkspaceBytes counts on

int64_t ListQueryTiles(const BatchLayout& batch, QueryTile* tiles) {
  int64_t count = 0;
  for (int64_t d = 0; d < batch.rows.documents; ++d) {
    const Document document = DocumentOf(batch.cu_seqlens_host, d);
    for (int64_t index = 0; index < document.tiles(); ++index) {
      tiles[count++] = {batch.cu_seqlens_host[d], batch.cu_seqlens_host[d + 1], index};
    }
  }
  return count;
}

constexpr int64_t kTile = kAttentionTile;

struct Scratch {
  alignas(64) std::array<float, PackedLeftSize(kTile, kMaxHeadDim)> query;
  alignas(64) std::array<float, PackedRightSize(kMaxHeadDim, kTile)> key_or_value;
  alignas(64) std::array<float, kTile * kTile> scores;
  alignas(64) std::array<float, PackedLeftSize(kTile, kTile)> probabilities;
  alignas(64) std::array<float, kTile * kMaxHeadDim> sums;  // of probability times value
  std::array<float, kTile> max;
  std::array<float, kTile> denominator;
};

// Scores of one row become probabilities relative to the new maximum; earlier sums follow it.
void SoftmaxRow(const Interval& visible, int64_t keys, float scale, int64_t row, int64_t head_dim,
                Scratch& scratch) {
  float* scores = scratch.scores.data() + row * kTile;
  float& max = scratch.max[static_cast<size_t>(row)];
  float& denominator = scratch.denominator[static_cast<size_t>(row)];
  std::fill(scores, scores + visible.begin, 0.0f);
  std::fill(scores + visible.end, scores + keys, 0.0f);
  if (visible.size() == 0) return;
  float* seen = scores + visible.begin;
  const float new_max = std::max(max, Max(seen, visible.size()) * scale);
  for (int64_t i = 0; i < visible.size(); ++i) seen[i] = Exp(std::fma(seen[i], scale, -new_max));
  const float sum = LaneSum(visible.size(), [&](int64_t i) { return seen[i]; });
  if (new_max != max) {
    const float shrink = Exp(max - new_max);
    denominator *= shrink;
    float* sums = scratch.sums.data() + row * head_dim;
    for (int64_t i = 0; i < head_dim; ++i) sums[i] *= shrink;
    max = new_max;
  }
  denominator += sum;
}

template <typename T>
void AttendTile(const Attention& op, const Heads<T>& heads, const QueryTile& tile, int64_t head,
                T* attn, float* lse) {
  Scratch scratch;
  const Document document{tile.document_begin, tile.document_end};
  Interval queries = document.tile(tile.index);
  // Rows before the first query are only there as keys; the tile is then not square.
  const bool square = queries.begin >= heads.first_query;
  queries.begin = std::max(queries.begin, heads.first_query);
  const int64_t d = op.head_dim;
  PackLeft(heads.Query(queries.begin, head), queries.size(), d, scratch.query.data());
  scratch.max.fill(std::numeric_limits<float>::lowest());
  scratch.denominator.fill(0.0f);
  std::fill_n(scratch.sums.data(), queries.size() * d, 0.0f);
  for (int64_t j = FirstKeyTile(tile.index, op.window); j <= tile.index; ++j) {
    const Interval keys = document.tile(j);
    const bool diagonal = square && j == tile.index;
    float* right = scratch.key_or_value.data();
    PackRight(heads.Key(keys.begin, head).Transposed(), d, keys.size(), right);
    MultiplyPacked(queries.size(), keys.size(), d, scratch.query.data(), right,
                   scratch.scores.data(), kTile, false,
                   diagonal ? Part::kLowerOutput : Part::kWhole);
    for (int64_t row = 0; row < queries.size(); ++row) {
      const Interval visible = VisibleKeys(queries.begin + row, keys, op.window);
      AddLinearBias(op, head, queries.begin + row, keys, visible,
                    scratch.scores.data() + row * kTile);
      SoftmaxRow(visible, keys.size(), op.scale, row, d, scratch);
    }
    PackLeft(Matrix<float>{scratch.scores.data(), kTile, 1}, queries.size(), keys.size(),
             scratch.probabilities.data());
    PackRight(heads.Value(keys.begin, head), keys.size(), d, right);
    MultiplyPacked(queries.size(), d, keys.size(), scratch.probabilities.data(), right,
                   scratch.sums.data(), d, true, diagonal ? Part::kLowerLeft : Part::kWhole);
  }
  for (int64_t row = 0; row < queries.size(); ++row) {
    const int64_t token = queries.begin + row - heads.first_query;
    const float denominator = scratch.denominator[static_cast<size_t>(row)];
    const float inverse = 1.0f / denominator;
    const float* sums = scratch.sums.data() + row * d;
    T* target = attn + (token * op.q_heads + head) * d;
    for (int64_t i = 0; i < d; ++i) target[i] = FromFloat<T>(sums[i] * inverse);
    if (lse != nullptr) {
      lse[token * op.q_heads + head] =
          scratch.max[static_cast<size_t>(row)] + std::log(denominator);
    }
  }
}

// A task for each tile and head: the last tiles first, since they see the most keys.
template <typename T>
void AttendTiles(const Heads<T>& heads, const QueryTile* tiles, int64_t count, T* attn, float* lse,
                 ThreadPool& threads) {
  const Attention& op = heads.op;
  threads.Run(count * op.q_heads, [&](int64_t task) {
    const int64_t tile = count - 1 - task / op.q_heads;
    AttendTile(op, heads, tiles[tile], task % op.q_heads, attn, lse);
  });
}

}  // namespace

void AttentionForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const auto& op = static_cast<const Attention&>(base);
  CheckHeadDim(op);
  auto* tiles = static_cast<QueryTile*>(args.workspace);
  const int64_t count = ListQueryTiles(args.batch, tiles);
  WithElementType(args.inputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    const Heads<T> heads{op, args.inputs[0].as<const T>()};
    AttendTiles(heads, tiles, count, args.outputs[0].as<T>(), args.outputs[1].as<float>(),
                Threads(context));
  });
}

void CachedAttentionForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const Attention& op = static_cast<const CachedAttention&>(base).attention;
  CheckHeadDim(op);
  const TensorView& qkv = args.inputs[0];
  const TensorView& cache = args.inputs[1];
  const int64_t cached = args.batch.rows.cached;
  const Document document{0, cached + qkv.rows};
  auto* tiles = static_cast<QueryTile*>(args.workspace);
  int64_t count = 0;
  for (int64_t index = cached / kTile; index < document.tiles(); ++index) {
    tiles[count++] = {0, static_cast<int32_t>(document.end), index};
  }
  WithElementType(qkv.dtype, [&](auto element) {
    using T = decltype(element);
    const int64_t skip = op.q_heads * op.head_dim;
    for (int64_t row = 0; row < qkv.rows; ++row) {
      std::copy_n(qkv.as<const T>() + row * qkv.cols + skip, cache.cols,
                  cache.as<T>() + (cached + row) * cache.cols);
    }
    const Heads<T> heads{op, qkv.as<const T>(), cache.as<const T>(), cached};
    AttendTiles(heads, tiles, count, args.outputs[0].as<T>(), static_cast<float*>(nullptr),
                Threads(context));
  });
}

}  // namespace lazytrain::cpu
