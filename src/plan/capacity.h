// How much a step may hold: programs are compiled for a capacity and run whatever fits in it.
#pragma once

#include <cstdint>

#include "ops/op.h"

namespace lazytrain {

struct Capacity {
  int64_t micro_batches = 1;       // most micro-batches of a step
  int64_t micro_batch_tokens = 0;  // most tokens of a micro-batch
  int64_t documents = 0;           // most documents of a micro-batch
  int64_t longest_document = 0;    // tokens
  int64_t selected = 0;            // most rows of a micro-batch whose logits are wanted
  // Row-wise ops take micro-batches in chunks of so many tokens (0: whole), so that a document may
  // be longer than the working set of its layers. Results depend on it: part of the numerics key.
  int64_t chunk_tokens = 0;

  // Chunks of a full micro-batch.
  int64_t chunks() const;

  // The sizes of a full micro-batch.
  RowCounts MicroBatchRows() const;
};

// The most micro-batches that next-fit packing makes of a step: `examples` documents of at most
// `longest` tokens (or, with examples 0, `tokens` tokens in such documents) in micro-batches of
// `micro_batch_tokens` >= longest.
int64_t MaxMicroBatches(int64_t examples, int64_t tokens, int64_t longest,
                        int64_t micro_batch_tokens);

}  // namespace lazytrain
