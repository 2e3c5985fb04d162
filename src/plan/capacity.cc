#include "plan/capacity.h"

#include <algorithm>

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
  rows.squared_lengths = static_cast<double>(micro_batch_tokens) *
                         static_cast<double>(std::min(longest_document, micro_batch_tokens));
  return rows;
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
