// Byte pair encoding of one sequence of symbols, in O(n log n).
#pragma once

#include <cstdint>
#include <vector>

#include "data/tokenizer/merge_table.h"

namespace lazytrain {

// Merges, again and again, the pair of neighbours of the lowest rank (the leftmost of several)
// until no pair has a merge (Sennrich et al. 2016). Candidates wait in a priority queue and symbols
// are linked, so that a sequence without word boundaries, as a whole document, costs no more a
// symbol than a word. Buffers are kept between calls; one object for each thread.
class BpeMerger {
 public:
  // Replaces the tokens by the merged ones. At most 2^31 - 1 symbols.
  void Merge(const MergeTable& merges, std::vector<int32_t>& tokens);

 private:
  void MergeShort(const MergeTable& merges, std::vector<int32_t>& tokens);
  void MergeLong(const MergeTable& merges, std::vector<int32_t>& tokens);
  void Push(const MergeTable& merges, const std::vector<int32_t>& tokens, int32_t left);

  std::vector<int32_t> previous_;
  std::vector<int32_t> next_;
  std::vector<uint64_t> queue_;  // a heap of (rank << 32 | position), the lowest on top
  std::vector<uint32_t> ranks_;  // of the pair that begins at each symbol
};

}  // namespace lazytrain
