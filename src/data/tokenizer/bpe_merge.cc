#include "data/tokenizer/bpe_merge.h"

#include <algorithm>
#include <functional>

#include "core/error.h"

namespace lazytrain {
namespace {

constexpr int32_t kRemoved = -1;
constexpr uint32_t kNoMerge = UINT32_MAX;
// Below this a scan over all ranks is quicker than a queue.
constexpr size_t kShort = 32;

}  // namespace

void BpeMerger::Merge(const MergeTable& merges, std::vector<int32_t>& tokens) {
  if (tokens.size() < 2) return;
  if (tokens.size() <= kShort) {
    MergeShort(merges, tokens);
  } else {
    MergeLong(merges, tokens);
  }
}

void BpeMerger::MergeShort(const MergeTable& merges, std::vector<int32_t>& tokens) {
  const auto rank_at = [&](size_t i) {
    if (i + 1 >= tokens.size()) return kNoMerge;
    const lazytrain::Merge* merge = merges.Find(tokens[i], tokens[i + 1]);
    return merge == nullptr ? kNoMerge : merge->rank;
  };
  ranks_.resize(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) ranks_[i] = rank_at(i);
  while (true) {
    const auto lowest = std::min_element(ranks_.begin(), ranks_.end());
    if (*lowest == kNoMerge) return;
    const auto at = static_cast<size_t>(lowest - ranks_.begin());
    tokens[at] = merges.Find(tokens[at], tokens[at + 1])->merged;
    tokens.erase(tokens.begin() + static_cast<int64_t>(at) + 1);
    ranks_.erase(ranks_.begin() + static_cast<int64_t>(at) + 1);
    ranks_[at] = rank_at(at);
    if (at > 0) ranks_[at - 1] = rank_at(at - 1);
  }
}

void BpeMerger::Push(const MergeTable& merges, const std::vector<int32_t>& tokens, int32_t left) {
  const int32_t right = next_[static_cast<size_t>(left)];
  if (right == static_cast<int32_t>(tokens.size())) return;
  const lazytrain::Merge* merge =
      merges.Find(tokens[static_cast<size_t>(left)], tokens[static_cast<size_t>(right)]);
  if (merge == nullptr) return;
  queue_.push_back(uint64_t{merge->rank} << 32 | static_cast<uint32_t>(left));
}

void BpeMerger::MergeLong(const MergeTable& merges, std::vector<int32_t>& tokens) {
  if (tokens.size() > INT32_MAX) {
    throw RunError("a text of {} symbols cannot be tokenized at once; split it", tokens.size());
  }
  const auto size = static_cast<int32_t>(tokens.size());
  previous_.resize(tokens.size());
  next_.resize(tokens.size());
  for (int32_t i = 0; i < size; ++i) {
    previous_[static_cast<size_t>(i)] = i - 1;
    next_[static_cast<size_t>(i)] = i + 1;
  }
  queue_.clear();
  for (int32_t i = 0; i < size; ++i) Push(merges, tokens, i);
  const auto later = std::greater<uint64_t>();
  std::make_heap(queue_.begin(), queue_.end(), later);
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end(), later);
    const auto left = static_cast<uint32_t>(queue_.back());
    const auto rank = static_cast<uint32_t>(queue_.back() >> 32);
    queue_.pop_back();
    const int32_t right = next_[left];
    if (tokens[left] == kRemoved || right == size) continue;
    const lazytrain::Merge* merge = merges.Find(tokens[left], tokens[static_cast<size_t>(right)]);
    // The pair has changed since this candidate was queued.
    if (merge == nullptr || merge->rank != rank) continue;
    tokens[left] = merge->merged;
    tokens[static_cast<size_t>(right)] = kRemoved;
    const int32_t after = next_[static_cast<size_t>(right)];
    next_[left] = after;
    if (after < size) previous_[static_cast<size_t>(after)] = static_cast<int32_t>(left);
    for (const int32_t i : {previous_[left], static_cast<int32_t>(left)}) {
      if (i < 0) continue;
      const size_t before = queue_.size();
      Push(merges, tokens, i);
      if (queue_.size() > before) std::push_heap(queue_.begin(), queue_.end(), later);
    }
  }
  std::erase(tokens, kRemoved);
}

}  // namespace lazytrain
