// Strings found by walking a text byte by byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace lazytrain {

class ByteTrie {
 public:
  using Node = uint32_t;
  static constexpr Node kRoot = 0;
  static constexpr Node kNone = UINT32_MAX;

  struct Found {
    size_t length;  // 0: nothing found
    int32_t value;
  };

  // Of two equal keys the first counts; an empty key is ignored. Values are 0 or more.
  void Add(std::string_view key, int32_t value);
  bool empty() const { return values_.size() == 1; }

  Node Step(Node node, char byte) const {
    const auto found = next_.find(EdgeOf(node, byte));
    return found == next_.end() ? kNone : found->second;
  }
  // Negative if no key ends here.
  int32_t ValueAt(Node node) const { return values_[node]; }
  bool BeginsKey(char byte) const { return first_bytes_[static_cast<unsigned char>(byte)]; }

  // The longest key that the text begins with.
  Found Longest(std::string_view text) const;

 private:
  static uint64_t EdgeOf(Node node, char byte) {
    return uint64_t{node} << 8 | static_cast<unsigned char>(byte);
  }

  std::unordered_map<uint64_t, Node> next_;
  std::vector<int32_t> values_ = {-1};
  bool first_bytes_[256] = {};
};

}  // namespace lazytrain
