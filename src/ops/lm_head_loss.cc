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
  // Float32 logits of one chunk.
  return std::min(chunk_rows, capacity.tokens) * vocab_size * SizeOf(DType::kF32);
}

std::string LmHeadLoss::Signature() const {
  return fmt::format("lm_head_loss({},{},{},{})", vocab_size, hidden, chunk_rows, Name(dtype));
}

}  // namespace lazytrain
