#include "ops/attention.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/hash.h"
#include "ops/cached_attention.h"

namespace lazytrain {

OpCost Attention::Cost(Direction direction, const RowCounts& rows) const {
  double pairs = rows.squared_lengths / 2.0;
  if (window > 0) {
    pairs = std::min(pairs, static_cast<double>(rows.tokens) * static_cast<double>(window));
  }
  const double product = 2.0 * pairs * static_cast<double>(q_heads * head_dim);
  const double tokens = static_cast<double>(rows.tokens);
  const double element = static_cast<double>(SizeOf(dtype));
  const double qkv = tokens * static_cast<double>((q_heads + 2 * kv_heads) * head_dim) * element;
  const double attn = tokens * static_cast<double>(q_heads * head_dim) * element;
  // Forward: scores and values. Backward: scores again, and four more products of that size.
  if (direction == Direction::kForward) return {2.0 * product, qkv + attn};
  return {5.0 * product, 2.0 * qkv + 2.0 * attn};
}

int64_t Attention::WorkspaceBytes(Direction direction, const RowCounts& capacity) const {
  // Forward: a list of query tiles, 16 bytes each. Backward: float32 gradients of queries, keys and
  // values, each with a row a query head, and a sum a head.
  if (direction == Direction::kForward) return 16 * capacity.tokens;
  return capacity.tokens * q_heads * (3 * head_dim + 1) * SizeOf(DType::kF32);
}

Continuation Attention::continuation() const {
  const auto op = std::make_shared<CachedAttention>(*this);
  return {op, dtype, op->cache_cols()};
}

std::string Attention::Signature() const {
  std::string signature = fmt::format("attention({},{},{},{:a},{},{},{})", q_heads, kv_heads,
                                      head_dim, scale, window, Name(dtype), kTile);
  if (slopes.empty()) return signature;
  Digest digest;
  digest.Add(slopes.data(), slopes.size() * sizeof(float));
  return fmt::format("{}+slopes({})", signature, digest.Hex().substr(0, 16));
}

}  // namespace lazytrain
