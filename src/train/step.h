// A step's documents as micro-batches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/batch.h"

namespace lazytrain {

// Cuts documents, in order, into micro-batches of at most `micro_batch_tokens` tokens and, above 0,
// `max_documents` documents (data/packing.h), and gives every token its share of the step's loss.
std::vector<MicroBatch> MakeStep(std::span<const DocumentView> documents,
                                 int64_t micro_batch_tokens, int64_t max_documents = 0);

}  // namespace lazytrain
