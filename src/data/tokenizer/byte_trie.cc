#include "data/tokenizer/byte_trie.h"

namespace lazytrain {

void ByteTrie::Add(std::string_view key, int32_t value) {
  if (key.empty()) return;
  first_bytes_[static_cast<unsigned char>(key[0])] = true;
  Node node = kRoot;
  for (const char c : key) {
    const auto [found, added] =
        next_.try_emplace(EdgeOf(node, c), static_cast<Node>(values_.size()));
    if (added) values_.push_back(-1);
    node = found->second;
  }
  if (values_[node] < 0) values_[node] = value;
}

ByteTrie::Found ByteTrie::Longest(std::string_view text) const {
  Found longest{0, -1};
  if (text.empty() || !BeginsKey(text[0])) return longest;
  Node node = kRoot;
  for (size_t i = 0; i < text.size(); ++i) {
    node = Step(node, text[i]);
    if (node == kNone) break;
    if (ValueAt(node) >= 0) longest = {i + 1, ValueAt(node)};
  }
  return longest;
}

}  // namespace lazytrain
