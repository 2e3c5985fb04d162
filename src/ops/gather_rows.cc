#include "ops/gather_rows.h"

#include <fmt/core.h>

namespace lazytrain {

OpCost GatherRows::Cost(Direction /*direction*/, const RowCounts& rows) const {
  const double values = static_cast<double>(rows.selected) * static_cast<double>(hidden);
  return {0.0, 2.0 * values * static_cast<double>(SizeOf(dtype))};
}

std::string GatherRows::Signature() const {
  return fmt::format("gather_rows({},{})", hidden, Name(dtype));
}

}  // namespace lazytrain
