#include "plan/capacity.h"

#include <algorithm>
#include <bit>

#include "core/units.h"

namespace lazytrain {

int64_t Capacity::chunks() const {
  return chunk_tokens > 0 ? CeilDiv(micro_batch_tokens, chunk_tokens) : 1;
}

RowCounts Capacity::MicroBatchRows() const {
  RowCounts rows;
  rows.tokens = micro_batch_tokens;
  rows.documents = documents;
  rows.longest_document = longest_document;
  rows.selected = selected;
  rows.context = context;
  rows.cached = std::max<int64_t>(0, context - micro_batch_tokens);
  rows.squared_lengths = static_cast<double>(micro_batch_tokens) *
                         static_cast<double>(std::min(longest_document, micro_batch_tokens));
  return rows;
}

int64_t RowBucket(int64_t rows, int64_t most) {
  const auto step = std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(rows / 100, 1)));
  return std::min(most, RoundUp(rows, static_cast<int64_t>(step)));
}

int64_t MaxMicroBatches(int64_t examples, int64_t tokens, int64_t longest,
                        int64_t micro_batch_tokens) {
  if (examples > 0) return CeilDiv(examples, micro_batch_tokens / longest);
  // A micro-batch closes only when the next document does not fit: it then holds more than
  // micro_batch_tokens - longest, and together with the first of the next more than
  // micro_batch_tokens.
  const int64_t by_one = CeilDiv(tokens, micro_batch_tokens - longest + 1);
  const int64_t by_two = 2 * (tokens / (micro_batch_tokens + 1)) + 1;
  return std::min(by_one, by_two);
}

}  // namespace lazytrain
