// What words became, for a vocabulary that is applied word by word.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lazytrain {

// A hash table from short words to their tokens. When it is full it is emptied: text has few words
// that come again, and those are soon back. Not thread-safe.
class WordCache {
 public:
  WordCache();

  // Whether words of this length are kept at all.
  static bool Keeps(std::string_view word) { return word.size() <= kLongestWord; }
  // The tokens of the word if it is known; they are valid until the next Insert.
  bool Find(std::string_view word, std::span<const int32_t>& tokens) const;
  void Insert(std::string_view word, std::span<const int32_t> tokens);

 private:
  static constexpr size_t kLongestWord = 32;
  struct Slot {
    uint64_t hash = 0;
    uint32_t text = 0;    // where the word begins in texts_
    uint32_t tokens = 0;  // where its tokens begin in tokens_
    uint16_t text_size = 0;
    uint16_t token_count = 0;
    bool used = false;
  };

  static uint64_t HashOf(std::string_view word);
  void Clear();

  std::vector<Slot> slots_;  // open addressing, at most half full
  size_t used_ = 0;
  std::string texts_;
  std::vector<int32_t> tokens_;
};

}  // namespace lazytrain
