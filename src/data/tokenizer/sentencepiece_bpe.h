// The BPE of SentencePiece, which merges by the score of the piece that two neighbours make.
#pragma once

#include <cstdint>
#include <queue>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/tokenizer/byte_trie.h"
#include "data/tokenizer/sentencepiece_model.h"

namespace lazytrain {

// Encodes one text. What it is given must outlive it.
class SentencePieceBpe {
 public:
  using PieceIndex = std::unordered_map<std::string_view, int32_t>;

  // `index`: the pieces that text can become. `user_defined`: those of them that are never merged.
  SentencePieceBpe(const std::vector<SentencePiece>& pieces, const PieceIndex& index,
                   const ByteTrie& user_defined)
      : pieces_(pieces), index_(index), user_defined_(user_defined) {}

  // The segments of the normalised text, characters without a piece among them. O(n log n).
  std::vector<std::string_view> Encode(std::string_view text);

 private:
  struct Symbol {
    std::string_view text;  // empty: merged into the one before
    int64_t previous;
    int64_t next;  // -1 at the end
    bool frozen;   // user-defined
  };
  struct Candidate {
    float score;
    int64_t left;
    int64_t right;
    size_t size;  // of the text when it was queued
    bool operator<(const Candidate& other) const {
      return score < other.score || (score == other.score && left > other.left);
    }
  };

  void Push(int64_t left, int64_t right);
  void Merge(const Candidate& candidate);
  void AddSegments(std::string_view text, std::vector<std::string_view>& segments) const;

  const std::vector<SentencePiece>& pieces_;
  const PieceIndex& index_;
  const ByteTrie& user_defined_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> queue_;
  // What unused pieces were made of: they serve on the way to longer ones only.
  std::unordered_map<std::string_view, std::pair<std::string_view, std::string_view>> halves_;
};

}  // namespace lazytrain
