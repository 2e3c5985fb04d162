// What a step works on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/op.h"

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

  RowCounts Rows() const;
  int64_t predicted_tokens() const;
};

// The sizes of a step's micro-batches.
std::vector<RowCounts> RowsOf(std::span<const MicroBatch> step);

// Labels shift by one inside each document; its last token predicts nothing. Loss weights are set
// by FinishStep, once the whole step is known.
MicroBatch MakeMicroBatch(std::span<const DocumentView> documents);

// The loss of a step is the mean over its predicted tokens, however it is split. Returns their
// number.
int64_t FinishStep(std::vector<MicroBatch>& step);

}  // namespace lazytrain
