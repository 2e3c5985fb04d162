#include "train/step.h"

#include "data/packing.h"

namespace lazytrain {

std::vector<MicroBatch> MakeStep(std::span<const DocumentView> documents,
                                 const Capacity& capacity) {
  std::vector<int64_t> lengths;
  lengths.reserve(documents.size());
  for (const DocumentView& document : documents) {
    lengths.push_back(static_cast<int64_t>(document.input_ids.size()));
  }
  std::vector<MicroBatch> step;
  for (const DocumentRange& range :
       CutIntoMicroBatches(lengths, capacity.micro_batch_tokens, capacity.documents)) {
    step.push_back(MakeMicroBatch(documents.subspan(static_cast<size_t>(range.begin),
                                                    static_cast<size_t>(range.documents()))));
    PadToBucket(step.back(), capacity);
  }
  FinishStep(step);
  return step;
}

}  // namespace lazytrain
