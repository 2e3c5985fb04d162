// The regular expressions by which byte-level vocabularies cut text into words, written by hand:
// the same cuts as the expression, many times faster.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

namespace lazytrain {

// The expression that the pre-tokenizer ByteLevel uses (GPT-2's).
extern const char* const kGpt2Pattern;

// Every text is cut completely: each character belongs to a match. Thread-safe.
class WordSplitter {
 public:
  virtual ~WordSplitter() = default;
  // Appends the matches, in order.
  virtual void Split(std::string_view text, std::vector<std::string_view>& words) const = 0;
};

// Null if the expression is none of those known.
std::unique_ptr<WordSplitter> FindWordSplitter(std::string_view pattern);
// The expressions that FindWordSplitter knows.
std::vector<std::string_view> KnownWordPatterns();

}  // namespace lazytrain
