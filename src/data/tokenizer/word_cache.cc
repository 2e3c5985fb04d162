#include "data/tokenizer/word_cache.h"

#include <xxhash.h>

#include <algorithm>

namespace lazytrain {
namespace {

constexpr size_t kSlots = size_t{1} << 17;

}  // namespace

WordCache::WordCache() : slots_(kSlots) {}

uint64_t WordCache::HashOf(std::string_view word) { return XXH3_64bits(word.data(), word.size()); }

bool WordCache::Find(std::string_view word, std::span<const int32_t>& tokens) const {
  const uint64_t hash = HashOf(word);
  for (size_t i = hash % kSlots; slots_[i].used; i = (i + 1) % kSlots) {
    const Slot& slot = slots_[i];
    if (slot.hash != hash || slot.text_size != word.size() ||
        texts_.compare(slot.text, slot.text_size, word) != 0) {
      continue;
    }
    tokens = std::span(tokens_).subspan(slot.tokens, slot.token_count);
    return true;
  }
  return false;
}

void WordCache::Insert(std::string_view word, std::span<const int32_t> tokens) {
  if (2 * used_ >= kSlots) Clear();
  const uint64_t hash = HashOf(word);
  size_t i = hash % kSlots;
  while (slots_[i].used) i = (i + 1) % kSlots;
  slots_[i] = {.hash = hash,
               .text = static_cast<uint32_t>(texts_.size()),
               .tokens = static_cast<uint32_t>(tokens_.size()),
               .text_size = static_cast<uint16_t>(word.size()),
               .token_count = static_cast<uint16_t>(tokens.size()),
               .used = true};
  texts_ += word;
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  ++used_;
}

void WordCache::Clear() {
  std::fill(slots_.begin(), slots_.end(), Slot{});
  used_ = 0;
  texts_.clear();
  tokens_.clear();
}

}  // namespace lazytrain
