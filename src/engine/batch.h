// What a step works on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/op.h"
#include "plan/capacity.h"

namespace lazytrain {

// Documents one after the other, none padded. `labels` are those of the hub: label t is the id that
// should stand at t (ids themselves), below 0 where nothing is trained.
struct DocumentView {
  std::span<const int32_t> input_ids;
  std::span<const int32_t> labels;
};

// A micro-batch as programs read it.
struct MicroBatch {
  std::vector<int32_t> input_ids;
  std::vector<int32_t> positions;   // within the document
  std::vector<int32_t> targets;     // the next label of the same document, -1: not trained
  std::vector<float> loss_weights;  // 1 / predicted tokens of the step where trained, else 0
  std::vector<int32_t> cu_seqlens;  // documents + 1
  std::vector<int32_t> selected_rows;
  int64_t padding = 0;  // rows at the end that are of no document (PadToBucket)
  int64_t cached = 0;   // tokens of its only document that came before, where states hold them

  RowCounts Rows() const;
  int64_t predicted_tokens() const;
  // Those of documents.
  int64_t tokens() const { return static_cast<int64_t>(input_ids.size()) - padding; }
};

// The sizes of a step's micro-batches.
std::vector<RowCounts> RowsOf(std::span<const MicroBatch> step);

// Labels shift by one inside each document; its last token predicts nothing. Loss weights are set
// by FinishStep, once the whole step is known.
MicroBatch MakeMicroBatch(std::span<const DocumentView> documents);

// Adds rows up to the bucket (RowBucket) of the batch's size: documents of token 0 that predict
// nothing, none longer than the capacity's longest. Fewer where the capacity has no room for so
// many documents.
void PadToBucket(MicroBatch& batch, const Capacity& capacity);

// Tokens that follow `cached` others of the same document; the last one's logits are wanted.
MicroBatch MakeContinuation(std::span<const int32_t> ids, int64_t cached);

// A step that fills a capacity with random tokens.
std::vector<MicroBatch> MakeFullStep(const Capacity& capacity, int64_t vocab_size, uint64_t seed);

// The loss of a step is the mean over its predicted tokens, however it is split. Returns their
// number.
int64_t FinishStep(std::vector<MicroBatch>& step);

}  // namespace lazytrain
