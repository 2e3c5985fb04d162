#include "train/trained_graph.h"

#include <algorithm>
#include <bit>

#include "model/family.h"

namespace lazytrain {
namespace {

// Tokens whose logits exist at once: enough rows for matrix products to be efficient where the
// vocabulary is large, few where it is small, so that logits never rival the activations. A
// function of the model alone, since results depend on it.
int64_t HeadChunkRows(int64_t vocab_size) {
  const auto rows = std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(vocab_size / 16, 1)));
  return std::clamp<int64_t>(static_cast<int64_t>(rows), 64, 2048);
}

}  // namespace

ModelGraph BuildTrainedGraph(const HubConfig& config, DType dtype) {
  GraphOptions options;
  options.dtype = dtype;
  // Only the graph knows where its config.json has the vocabulary.
  options.head_chunk_rows = HeadChunkRows(BuildModelGraph(config, options).vocab_size);
  return BuildModelGraph(config, options);
}

}  // namespace lazytrain
