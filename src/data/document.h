// What training sees of an example: token ids and what is to be predicted at each place.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lazytrain {

// The label of a token that is not trained.
inline constexpr int32_t kIgnoredLabel = -100;

// Both vectors have one entry a token. Labels are unshifted: labels[i] is input_ids[i] or
// kIgnoredLabel, and is predicted from the tokens before i; labels[0] therefore never counts.
struct Document {
  std::vector<int32_t> input_ids;
  std::vector<int32_t> labels;

  int64_t tokens() const { return static_cast<int64_t>(input_ids.size()); }
  // The labels that are predicted from something.
  int64_t trained_tokens() const {
    int64_t count = 0;
    for (size_t i = 1; i < labels.size(); ++i) count += labels[i] != kIgnoredLabel ? 1 : 0;
    return count;
  }
};

inline std::vector<int64_t> Lengths(std::span<const Document> documents) {
  std::vector<int64_t> lengths;
  lengths.reserve(documents.size());
  for (const Document& document : documents) lengths.push_back(document.tokens());
  return lengths;
}

}  // namespace lazytrain
