// How much a step may hold: programs are compiled for a capacity and run whatever fits in it.
#pragma once

#include <cstdint>

#include "ops/op.h"

namespace lazytrain {

// Tokens that go through a kernel at once, unless the user says otherwise: enough for matrix
// products to be efficient, few enough for working sets to be small.
inline constexpr int64_t kTokensAtOnce = 8192;

struct Capacity {
  int64_t micro_batches = 1;       // most micro-batches of a step
  int64_t micro_batch_tokens = 0;  // most tokens of a micro-batch
  int64_t documents = 0;           // most documents of a micro-batch
  int64_t longest_document = 0;    // tokens
  int64_t selected = 0;            // most rows of a micro-batch whose logits are wanted
  int64_t context = 0;             // tokens that states of a continued document have room for
  // Row-wise ops take micro-batches in chunks of so many tokens (0: whole), so that a document may
  // be longer than the working set of its layers. Results depend on it: part of the numerics key.
  int64_t chunk_tokens = 0;

  // Chunks of a full micro-batch.
  int64_t chunks() const;

  // The sizes of a full micro-batch.
  RowCounts MicroBatchRows() const;
};

// Rows that kernels are run for: `rows` rounded up by less than 1%, at most to `most`, to few
// different sizes, since library plans and captured graphs are made for sizes.
int64_t RowBucket(int64_t rows, int64_t most);

// The most micro-batches that next-fit packing makes of a step: `examples` documents of at most
// `longest` tokens (or, with examples 0, `tokens` tokens in such documents) in micro-batches of
// `micro_batch_tokens` >= longest.
int64_t MaxMicroBatches(int64_t examples, int64_t tokens, int64_t longest,
                        int64_t micro_batch_tokens);

}  // namespace lazytrain
