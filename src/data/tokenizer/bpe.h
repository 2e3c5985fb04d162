// The model "BPE" of tokenizer.json: a vocabulary and its merges.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/bpe_merge.h"
#include "data/tokenizer/merge_table.h"
#include "data/tokenizer/tokenizer_json.h"
#include "data/tokenizer/word_cache.h"

namespace lazytrain {

// How a piece of text spells its symbols.
enum class PieceAlphabet {
  kText,  // a symbol is a character of the piece
  kByte,  // a symbol is a byte of the piece, spelled in the byte alphabet (byte_level.h)
};

// The buffers of one thread.
struct BpeWorkspace {
  BpeMerger merger;
  WordCache words;
  std::vector<int32_t> tokens;
  std::string spelling;
};

class BpeModel {
 public:
  // Takes vocab and merges out of `json`. Throws Error naming the file if a field is missing or
  // wrong, an id is out of range or given twice, or a merge is not made of tokens.
  explicit BpeModel(TokenizerJson& json);
  // The index points into the tokens.
  BpeModel(const BpeModel&) = delete;
  BpeModel& operator=(const BpeModel&) = delete;

  // Appends the tokens of one piece. `keep`: whether to remember the piece (words come again, whole
  // texts do not). Every use of one workspace must be with the same alphabet.
  void Encode(std::string_view piece, PieceAlphabet alphabet, bool keep, BpeWorkspace& work,
              std::vector<int32_t>& out) const;

  std::optional<int32_t> TokenToId(std::string_view token) const;
  // Null if there is no such token.
  const std::string* IdToToken(int32_t id) const;
  // Number of tokens.
  int64_t size() const { return static_cast<int64_t>(ids_.size()); }
  // One more than the largest id.
  int64_t id_limit() const { return static_cast<int64_t>(tokens_.size()); }

 private:
  void ReadVocabulary(TokenizerJson& json);
  void ReadMerges(TokenizerJson& json);
  void FillSymbolTables();
  void EncodeWord(std::string_view piece, PieceAlphabet alphabet, BpeWorkspace& work) const;
  void SplitText(std::string_view piece, std::vector<int32_t>& symbols) const;
  int32_t IdOf(std::string_view symbol, bool first, bool last) const;
  bool AppendBytes(std::string_view symbol, std::vector<int32_t>& symbols) const;

  std::string place_;
  std::string prefix_;  // before every symbol of a word but the first
  std::string suffix_;  // behind the last symbol of a word
  std::optional<std::string> unknown_;
  int32_t unknown_id_ = -1;
  bool fuse_unknown_ = false;
  bool byte_fallback_ = false;
  bool ignore_merges_ = false;

  std::vector<std::string> tokens_;  // by id
  std::vector<bool> known_;          // by id
  std::unordered_map<std::string_view, int32_t> ids_;
  MergeTable merges_;
  int32_t byte_tokens_[256];            // <0x00> ... <0xFF>, or -1
  int32_t byte_symbols_[256];           // the byte alphabet, or -1
  bool all_bytes_ = false;              // every byte has its symbol, and nothing is added to one
  std::vector<int32_t> short_symbols_;  // characters below U+3000, or -1
};

}  // namespace lazytrain
