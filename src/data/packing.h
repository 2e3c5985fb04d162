// Cutting a step's documents into micro-batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lazytrain {

// The documents [begin, end) of a step.
struct DocumentRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t tokens = 0;

  int64_t documents() const { return end - begin; }
  bool operator==(const DocumentRange&) const = default;
};

// Next-fit: a micro-batch takes documents in order until the next one would pass `capacity` tokens
// or, when it is above 0, `max_documents`. A function of its arguments alone, so that micro-batch
// borders, which results depend on, never change with a schedule. Throws Error when a document is
// longer than the capacity.
std::vector<DocumentRange> CutIntoMicroBatches(std::span<const int64_t> lengths, int64_t capacity,
                                               int64_t max_documents = 0);

}  // namespace lazytrain
