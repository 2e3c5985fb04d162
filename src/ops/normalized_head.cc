#include "ops/normalized_head.h"

#include "core/units.h"

namespace lazytrain {
namespace {

// Reading the weight, its norms, writing what is normalised.
OpCost NormalizeCost(int64_t rows, int64_t cols, DType dtype) {
  const double elements = static_cast<double>(rows) * static_cast<double>(cols);
  return {3.0 * elements, 3.0 * elements * static_cast<double>(SizeOf(dtype))};
}

OpCost Sum(OpCost a, OpCost b) { return {a.flops + b.flops, a.bytes + b.bytes}; }

}  // namespace

OpCost NormalizedLmHeadLoss::Cost(Direction direction, const RowCounts& rows) const {
  OpCost cost =
      Sum(loss.Cost(direction, rows), NormalizeCost(loss.vocab_size, loss.hidden, loss.dtype));
  if (direction == Direction::kBackward) {
    cost = Sum(cost, NormalizeCost(loss.vocab_size, loss.hidden, DType::kF32));
  }
  return cost;
}

int64_t NormalizedLmHeadLoss::WorkspaceBytes(Direction direction, const RowCounts& capacity) const {
  const int64_t elements = loss.vocab_size * loss.hidden;
  int64_t bytes = RoundUp(elements * SizeOf(loss.dtype), kAlignment);
  if (direction == Direction::kBackward) {
    bytes += RoundUp(elements * SizeOf(DType::kF32), kAlignment);
  }
  return bytes + loss.WorkspaceBytes(direction, capacity);
}

OpCost NormalizedLinear::Cost(Direction direction, const RowCounts& rows) const {
  return Sum(linear.Cost(direction, rows),
             NormalizeCost(linear.out_features, linear.in_features, linear.dtype));
}

int64_t NormalizedLinear::WorkspaceBytes(Direction /*direction*/,
                                         const RowCounts& /*capacity*/) const {
  return linear.in_features * linear.out_features * SizeOf(linear.dtype);
}

}  // namespace lazytrain
