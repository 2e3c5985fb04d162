#include "ops/linear.h"

#include <fmt/core.h>

namespace lazytrain {

OpCost Linear::Cost(Direction direction, const RowCounts& rows) const {
  const double m = static_cast<double>(rows.rows(extent));
  const double k = static_cast<double>(in_features);
  const double n = static_cast<double>(out_features);
  const double element = static_cast<double>(SizeOf(dtype));
  const double products = 2.0 * m * n * k;
  const double operands = (m * k + n * k + m * n) * element;
  if (direction == Direction::kForward) return {products, operands};
  // Two products; the weight gradient is read and written in float32.
  return {2.0 * products, 2.0 * operands + n * k * 8.0};
}

std::string Linear::Signature() const {
  return fmt::format("linear({},{},{},{},{},{})", in_features, out_features, has_bias, has_residual,
                     Name(dtype), Name(output_dtype));
}

}  // namespace lazytrain
