#include "data/packing.h"

#include "core/error.h"

namespace lazytrain {

std::vector<DocumentRange> CutIntoMicroBatches(std::span<const int64_t> lengths, int64_t capacity,
                                               int64_t max_documents) {
  std::vector<DocumentRange> batches;
  for (int64_t i = 0; i < static_cast<int64_t>(lengths.size()); ++i) {
    const int64_t length = lengths[static_cast<size_t>(i)];
    if (length > capacity) {
      throw RunError(
          "a document of {} tokens does not fit a micro-batch of {}; raise "
          "memory.micro_batch_tokens or lower dataset.max_seq_len",
          length, capacity);
    }
    const bool starts = batches.empty() || batches.back().tokens + length > capacity ||
                        (max_documents > 0 && batches.back().documents() >= max_documents);
    if (starts) batches.push_back({i, i, 0});
    batches.back().end = i + 1;
    batches.back().tokens += length;
  }
  return batches;
}

}  // namespace lazytrain
