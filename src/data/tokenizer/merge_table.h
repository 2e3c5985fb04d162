// The merges of a BPE vocabulary, looked up by the pair of tokens.
#pragma once

#include <cstdint>
#include <vector>

namespace lazytrain {

struct Merge {
  uint32_t rank;   // lower goes first
  int32_t merged;  // the token that the pair becomes
};

class MergeTable {
 public:
  explicit MergeTable(int64_t expected = 0);

  // Of two merges of one pair the later counts.
  void Set(int32_t left, int32_t right, Merge merge);

  // Null if the pair has none.
  const Merge* Find(int32_t left, int32_t right) const {
    const uint64_t key = KeyOf(left, right);
    for (uint64_t slot = SlotOf(key);; slot = (slot + 1) & mask_) {
      if (slots_[slot].key == key) return &slots_[slot].merge;
      if (slots_[slot].key == kFree) return nullptr;
    }
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};  // no pair: tokens are not negative
  struct Slot {
    uint64_t key = kFree;
    Merge merge{};
  };

  static uint64_t KeyOf(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  uint64_t SlotOf(uint64_t key) const { return (key * 0x9E3779B97F4A7C15U) >> shift_; }
  void Resize(uint64_t slots);

  std::vector<Slot> slots_;  // open addressing, at most half full
  uint64_t mask_ = 0;
  int shift_ = 0;
  uint64_t used_ = 0;
};

}  // namespace lazytrain
