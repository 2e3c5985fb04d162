#include "engine/batch.h"

#include <algorithm>

#include "core/random.h"

namespace lazytrain {

RowCounts MicroBatch::Rows() const {
  RowCounts rows;
  rows.tokens = static_cast<int64_t>(input_ids.size());
  rows.documents = static_cast<int64_t>(cu_seqlens.size()) - 1;
  rows.cached = cached;
  rows.selected = static_cast<int64_t>(selected_rows.size());
  for (size_t d = 0; d + 1 < cu_seqlens.size(); ++d) {
    const int64_t length = cu_seqlens[d + 1] - cu_seqlens[d];
    rows.longest_document = std::max(rows.longest_document, length);
    rows.squared_lengths += static_cast<double>(length) * static_cast<double>(length);
  }
  return rows;
}

int64_t MicroBatch::predicted_tokens() const {
  return std::count_if(targets.begin(), targets.end(), [](int32_t t) { return t >= 0; });
}

std::vector<RowCounts> RowsOf(std::span<const MicroBatch> step) {
  std::vector<RowCounts> rows;
  rows.reserve(step.size());
  for (const MicroBatch& batch : step) rows.push_back(batch.Rows());
  return rows;
}

MicroBatch MakeMicroBatch(std::span<const DocumentView> documents) {
  MicroBatch batch;
  batch.cu_seqlens.push_back(0);
  for (const DocumentView& document : documents) {
    const size_t length = document.input_ids.size();
    for (size_t t = 0; t < length; ++t) {
      batch.input_ids.push_back(document.input_ids[t]);
      batch.positions.push_back(static_cast<int32_t>(t));
      const int32_t target = t + 1 < length ? document.labels[t + 1] : -1;
      batch.targets.push_back(std::max(target, -1));
    }
    batch.cu_seqlens.push_back(static_cast<int32_t>(batch.input_ids.size()));
  }
  batch.loss_weights.assign(batch.input_ids.size(), 0.0f);
  return batch;
}

void PadToBucket(MicroBatch& batch, const Capacity& capacity) {
  const auto rows = static_cast<int64_t>(batch.input_ids.size());
  const int64_t bucket = RowBucket(rows, capacity.micro_batch_tokens);
  while (static_cast<int64_t>(batch.input_ids.size()) < bucket &&
         static_cast<int64_t>(batch.cu_seqlens.size()) <= capacity.documents) {
    const int64_t missing = bucket - static_cast<int64_t>(batch.input_ids.size());
    const int64_t length = std::min(missing, capacity.longest_document);
    for (int64_t t = 0; t < length; ++t) {
      batch.input_ids.push_back(0);
      batch.positions.push_back(static_cast<int32_t>(t));
      batch.targets.push_back(-1);
      batch.loss_weights.push_back(0.0f);
    }
    batch.cu_seqlens.push_back(static_cast<int32_t>(batch.input_ids.size()));
    batch.padding += length;
  }
}

MicroBatch MakeContinuation(std::span<const int32_t> ids, int64_t cached) {
  const DocumentView document{ids, ids};
  MicroBatch batch = MakeMicroBatch({&document, 1});
  for (int32_t& position : batch.positions) position += static_cast<int32_t>(cached);
  batch.selected_rows = {static_cast<int32_t>(ids.size()) - 1};
  batch.cached = cached;
  return batch;
}

std::vector<MicroBatch> MakeFullStep(const Capacity& capacity, int64_t vocab_size, uint64_t seed) {
  Random random(seed);
  std::vector<MicroBatch> step;
  for (int64_t m = 0; m < capacity.micro_batches; ++m) {
    std::vector<std::vector<int32_t>> documents;
    std::vector<DocumentView> views;
    int64_t left = capacity.micro_batch_tokens;
    while (left > 0 && static_cast<int64_t>(documents.size()) < capacity.documents) {
      std::vector<int32_t>& ids = documents.emplace_back();
      const int64_t length = std::min(left, capacity.longest_document);
      ids.resize(static_cast<size_t>(length));
      for (int32_t& id : ids) {
        id = static_cast<int32_t>(random.Below(static_cast<uint64_t>(vocab_size)));
      }
      left -= length;
    }
    for (const std::vector<int32_t>& ids : documents) views.push_back({ids, ids});
    step.push_back(MakeMicroBatch(views));
  }
  FinishStep(step);
  return step;
}

int64_t FinishStep(std::vector<MicroBatch>& step) {
  int64_t predicted = 0;
  for (const MicroBatch& batch : step) predicted += batch.predicted_tokens();
  const float weight = predicted > 0 ? 1.0f / static_cast<float>(predicted) : 0.0f;
  for (MicroBatch& batch : step) {
    for (size_t t = 0; t < batch.targets.size(); ++t) {
      batch.loss_weights[t] = batch.targets[t] >= 0 ? weight : 0.0f;
    }
  }
  return predicted;
}

}  // namespace lazytrain
