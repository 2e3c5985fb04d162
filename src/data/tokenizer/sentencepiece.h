// SentencePiece: EncodeAsIds and DecodeIds of google/sentencepiece (0.2.3).
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/byte_trie.h"
#include "data/tokenizer/sentencepiece_model.h"
#include "data/tokenizer/sentencepiece_normalizer.h"
#include "data/tokenizer/text_encoder.h"

namespace lazytrain {

class SentencePieceEncoder final : public TextEncoder {
 public:
  // `add_bos`, `add_eos`: whether `add_special_tokens` means <s> in front and </s> behind, if the
  // model has them. Throws Error, beginning with `place`, for pieces that contradict each other.
  SentencePieceEncoder(SentencePieceModel model, const std::string& place, bool add_bos,
                       bool add_eos);
  // The indices point into the pieces.
  SentencePieceEncoder(const SentencePieceEncoder&) = delete;
  SentencePieceEncoder& operator=(const SentencePieceEncoder&) = delete;

  // Control pieces are never read out of the text.
  std::vector<int32_t> Encode(std::string_view text, bool add_special_tokens) const override;
  // Control pieces are silent in any case.
  std::string Decode(std::span<const int32_t> ids, bool skip_special_tokens) const override;
  // The normalised text, whole: there is no pre-tokenizer.
  std::vector<std::string> Pieces(std::string_view text) const override;
  std::optional<int32_t> TokenToId(std::string_view token) const override;
  std::optional<std::string> IdToToken(int32_t id) const override;
  bool IsSpecial(int32_t id) const override;
  int64_t vocab_size() const override { return static_cast<int64_t>(model_.pieces.size()); }

 private:
  struct Segment {
    std::string_view text;
    int32_t id;
  };

  void IndexPieces(const std::string& place);
  std::vector<Segment> EncodeUnigram(std::string_view text) const;
  const SentencePiece& At(int32_t id) const { return model_.pieces[static_cast<size_t>(id)]; }
  int32_t PieceId(std::string_view text) const;

  SentencePieceModel model_;
  SentencePieceNormalizer normalizer_;
  std::vector<int32_t> before_;  // the special tokens around a text
  std::vector<int32_t> after_;
  // Pieces that text can become, and those that it cannot (control, unknown, byte).
  std::unordered_map<std::string_view, int32_t> pieces_;
  std::unordered_map<std::string_view, int32_t> reserved_;
  ByteTrie trie_;          // pieces_, for the unigram model
  ByteTrie user_defined_;  // these are never cut or merged by BPE
  int32_t bytes_[256];     // byte pieces, or -1
  float lowest_score_ = 0;
};

}  // namespace lazytrain
