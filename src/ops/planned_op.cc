#include "ops/planned_op.h"

#include <fmt/core.h>

#include <algorithm>

namespace lazytrain {

OpCost PlannedOp::Cost(Direction direction, const RowCounts& rows) const {
  const double ratio = direction == Direction::kForward ? 1.0 : backward_ratio;
  const double count = static_cast<double>(rows.rows(extent)) * ratio;
  return {count * flops, count * bytes};
}

bool PlannedOp::differentiable(int input) const {
  return std::find(constants.begin(), constants.end(), input) == constants.end();
}

std::string PlannedOp::Signature() const {
  return fmt::format("{}({},{},{:a})", name, attributes, static_cast<int>(extent), flops);
}

OpCost PlannedAttention::Cost(Direction direction, const RowCounts& rows) const {
  const double count = static_cast<double>(rows.rows(extent));
  double pairs = rows.squared_lengths / 2.0;
  if (window > 0) pairs = std::min(pairs, count * static_cast<double>(window));
  if (span > 0) pairs = count * static_cast<double>(span);
  const double heads = static_cast<double>(q_heads);
  const double scores = 2.0 * pairs * heads * static_cast<double>(qk_dim);
  const double values = 2.0 * pairs * heads * static_cast<double>(v_dim);
  const double element = static_cast<double>(SizeOf(dtype));
  const double operands =
      count * element *
      static_cast<double>(q_heads * (qk_dim + v_dim) + kv_heads * (qk_dim + v_dim));
  if (direction == Direction::kForward) return {scores + values, operands};
  // Scores again, two products for queries and keys, two of values.
  return {3.0 * scores + 2.0 * values, 2.0 * operands};
}

std::string PlannedAttention::Signature() const {
  return fmt::format("{}({},{},{},{},{},{},{},{},{})", name, attributes, static_cast<int>(extent),
                     q_heads, kv_heads, qk_dim, v_dim, window, span, Name(dtype));
}

}  // namespace lazytrain
