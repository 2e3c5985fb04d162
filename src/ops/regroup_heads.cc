#include "ops/regroup_heads.h"

#include <fmt/core.h>

namespace lazytrain {

OpCost RegroupHeads::Cost(Direction /*direction*/, const RowCounts& rows) const {
  const double values =
      static_cast<double>(rows.tokens) * static_cast<double>((q_heads + 2 * kv_heads) * head_dim);
  return {0.0, 2.0 * values * static_cast<double>(SizeOf(dtype))};
}

std::string RegroupHeads::Signature() const {
  return fmt::format("regroup_heads({},{},{},{})", q_heads, kv_heads, head_dim, Name(dtype));
}

int64_t RegroupHeads::Source(int64_t head) const {
  const int64_t per_key = q_heads / kv_heads;
  if (head < q_heads) return head / per_key * (per_key + 2) + head % per_key;
  const int64_t other = head - q_heads;  // keys, then values
  return other % kv_heads * (per_key + 2) + per_key + other / kv_heads;
}

}  // namespace lazytrain
