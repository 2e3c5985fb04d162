#include "data/tokenizer/merge_table.h"

#include <algorithm>
#include <bit>

namespace lazytrain {

MergeTable::MergeTable(int64_t expected) {
  Resize(std::bit_ceil(std::max<uint64_t>(16, 2 * static_cast<uint64_t>(expected))));
}

void MergeTable::Resize(uint64_t slots) {
  std::vector<Slot> old = std::move(slots_);
  slots_.assign(slots, Slot{});
  mask_ = slots - 1;
  shift_ = 64 - std::countr_zero(slots);
  for (const Slot& slot : old) {
    if (slot.key == kFree) continue;
    uint64_t target = SlotOf(slot.key);
    while (slots_[target].key != kFree) target = (target + 1) & mask_;
    slots_[target] = slot;
  }
}

void MergeTable::Set(int32_t left, int32_t right, Merge merge) {
  const uint64_t key = KeyOf(left, right);
  uint64_t slot = SlotOf(key);
  while (slots_[slot].key != kFree && slots_[slot].key != key) slot = (slot + 1) & mask_;
  if (slots_[slot].key == kFree) {
    slots_[slot].key = key;
    ++used_;
  }
  slots_[slot].merge = merge;
  if (2 * used_ > slots_.size()) Resize(2 * slots_.size());
}

}  // namespace lazytrain
