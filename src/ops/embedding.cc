#include "ops/embedding.h"

#include <fmt/core.h>

namespace lazytrain {

OpCost Embedding::Cost(Direction direction, const RowCounts& rows) const {
  const double values = static_cast<double>(rows.tokens) * static_cast<double>(hidden);
  const double element = static_cast<double>(SizeOf(dtype));
  if (direction == Direction::kForward) return {0.0, 2.0 * values * element};
  // Read d_x; read and write the float32 gradient of the rows hit.
  return {values, values * (element + 8.0)};
}

std::string Embedding::Signature() const {
  return fmt::format("embedding({},{},{})", vocab_size, hidden, Name(dtype));
}

}  // namespace lazytrain
