#include "ops/cached_attention.h"

namespace lazytrain {

OpCost CachedAttention::Cost(Direction direction, const RowCounts& rows) const {
  // Every row sees all that is cached, and on average half of the new ones.
  const auto tokens = static_cast<double>(rows.tokens);
  const double seen = static_cast<double>(rows.cached) + tokens / 2.0;
  RowCounts alone = rows;
  alone.squared_lengths = 2.0 * tokens * seen;
  OpCost cost = attention.Cost(direction, alone);
  cost.bytes += static_cast<double>(rows.cached * cache_cols() * SizeOf(attention.dtype));
  return cost;
}

int64_t CachedAttention::WorkspaceBytes(Direction direction, const RowCounts& capacity) const {
  return attention.WorkspaceBytes(direction, capacity);
}

std::string CachedAttention::Signature() const { return "cached_" + attention.Signature(); }

}  // namespace lazytrain
