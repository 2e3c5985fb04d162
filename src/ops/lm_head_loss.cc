#include "ops/lm_head_loss.h"

#include <fmt/core.h>

#include <algorithm>

namespace lazytrain {

OpCost LmHeadLoss::Cost(Direction direction, const RowCounts& rows) const {
  const double m = static_cast<double>(rows.tokens);
  const double k = static_cast<double>(hidden);
  const double n = static_cast<double>(vocab_size);
  const double element = static_cast<double>(SizeOf(dtype));
  const double product = 2.0 * m * n * k;
  if (direction == Direction::kForward) return {product, (m * k + n * k + m * n) * element};
  return {3.0 * product, 3.0 * (m * k + n * k + m * n) * element + n * k * 8.0};
}

int64_t LmHeadLoss::WorkspaceBytes(Direction /*direction*/, const RowCounts& capacity) const {
  const int64_t rows = std::min(chunk_rows, capacity.tokens);
  // Float32 logits of one chunk; for short dtypes also float32 copies of the chunk's rows, of their
  // gradient, and of the head.
  int64_t floats = rows * vocab_size;
  if (dtype != DType::kF32) floats += 2 * rows * hidden + vocab_size * hidden;
  return floats * SizeOf(DType::kF32);
}

std::string LmHeadLoss::Signature() const {
  return fmt::format("lm_head_loss({},{},{},{})", vocab_size, hidden, chunk_rows, Name(dtype));
}

}  // namespace lazytrain
