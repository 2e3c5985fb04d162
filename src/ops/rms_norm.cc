#include "ops/rms_norm.h"

#include <fmt/core.h>

#include "core/units.h"

namespace lazytrain {

OpCost RmsNorm::Cost(Direction direction, const RowCounts& rows) const {
  const double values = static_cast<double>(rows.rows(extent)) * static_cast<double>(hidden);
  const double element = static_cast<double>(SizeOf(dtype));
  if (direction == Direction::kForward) {
    return {4.0 * values, (has_residual ? 3.0 : 2.0) * values * element};
  }
  // Without a residual x is one itself: its gradient is added to, hence read as well.
  return {10.0 * values, (has_residual ? 3.0 : 4.0) * values * element};
}

int64_t RmsNorm::WorkspaceBytes(Direction direction, const RowCounts& capacity) const {
  if (direction == Direction::kForward) return 0;
  return CeilDiv(capacity.rows(extent), kRowBlock) * hidden * SizeOf(DType::kF32);
}

std::string RmsNorm::Signature() const {
  return fmt::format("rms_norm({},{:a},{:a},{},{},{})", hidden, eps, scale_offset, has_residual,
                     Name(dtype), kRowBlock);
}

}  // namespace lazytrain
