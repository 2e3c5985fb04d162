#include "ops/swiglu.h"

#include <fmt/core.h>

namespace lazytrain {

OpCost Swiglu::Cost(Direction direction, const RowCounts& rows) const {
  const double values = static_cast<double>(rows.tokens) * static_cast<double>(intermediate);
  const double element = static_cast<double>(SizeOf(dtype));
  if (direction == Direction::kForward) return {6.0 * values, 3.0 * values * element};
  return {14.0 * values, 5.0 * values * element};
}

std::string Swiglu::Signature() const {
  return fmt::format("swiglu({},{})", intermediate, Name(dtype));
}

}  // namespace lazytrain
