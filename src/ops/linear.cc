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

int64_t Linear::WorkspaceBytes(Direction /*direction*/, const RowCounts& capacity) const {
  if (dtype == DType::kF32) return 0;
  // Float32 copies of the operands, for libraries that multiply nothing shorter.
  const int64_t m = capacity.rows(extent);
  return (m * in_features + out_features * in_features + m * out_features) * SizeOf(DType::kF32);
}

std::string Linear::Signature() const {
  return fmt::format("linear({},{},{},{},{},{})", in_features, out_features, has_bias, has_residual,
                     Name(dtype), Name(output_dtype));
}

}  // namespace lazytrain
