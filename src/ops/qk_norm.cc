#include "ops/qk_norm.h"

#include <fmt/core.h>

#include "core/units.h"

namespace lazytrain {

OpCost QkNorm::Cost(Direction direction, const RowCounts& rows) const {
  const double tokens = static_cast<double>(rows.tokens);
  const double normed = tokens * static_cast<double>((q_heads + kv_heads) * head_dim);
  const double bytes = tokens * static_cast<double>((q_heads + 2 * kv_heads) * head_dim) *
                       static_cast<double>(SizeOf(dtype));
  if (direction == Direction::kForward) return {4.0 * normed, 2.0 * bytes};
  return {10.0 * normed, 3.0 * bytes};
}

int64_t QkNorm::WorkspaceBytes(Direction direction, const RowCounts& capacity) const {
  if (direction == Direction::kForward) return 0;
  return CeilDiv(capacity.tokens, kRowBlock) * (group(0) + group(1)) * SizeOf(DType::kF32);
}

std::string QkNorm::Signature() const {
  return fmt::format("qk_norm({},{},{},{},{:a},{:a},{},{})", q_heads, kv_heads, head_dim, per_head,
                     eps, scale_offset, Name(dtype), kRowBlock);
}

}  // namespace lazytrain
