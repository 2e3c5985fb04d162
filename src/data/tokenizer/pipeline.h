// The stages of tokenizer.json in a row: added tokens, normalizer, pre-tokenizer, model,
// post-processor; and back by the decoder.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/decoder.h"
#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/post_processor.h"
#include "data/tokenizer/pre_tokenizer.h"
#include "data/tokenizer/text_encoder.h"
#include "data/tokenizer/tokenizer_json.h"

namespace lazytrain {

class Pipeline final : public TextEncoder {
 public:
  // Uses up `json`. Throws Error naming the file and the component.
  explicit Pipeline(TokenizerJson& json);
  ~Pipeline() override;

  std::vector<int32_t> Encode(std::string_view text, bool add_special_tokens) const override;
  std::string Decode(std::span<const int32_t> ids, bool skip_special_tokens) const override;
  std::vector<std::string> Pieces(std::string_view text) const override;
  std::optional<int32_t> TokenToId(std::string_view token) const override;
  std::optional<std::string> IdToToken(int32_t id) const override;
  bool IsSpecial(int32_t id) const override;
  int64_t vocab_size() const override { return id_limit_; }

 private:
  struct Workspace;
  class Lease;

  void ReadAddedTokens(const TokenizerJson& json);
  void FillMatchers();
  int32_t ExpectedId(const AddedToken& token) const;
  // Calls take_token(part) for every added token and take_pieces(list) for the pieces between two.
  template <typename TakeToken, typename TakePieces>
  void Cut(std::string_view text, Workspace& work, TakeToken take_token,
           TakePieces take_pieces) const;

  std::string place_;
  BpeModel model_;
  std::unique_ptr<const Normalizer> normalizer_;
  PreTokenizerChain pre_tokenizer_;
  std::unique_ptr<const Decoder> decoder_;
  SpecialFrame frame_;

  std::vector<AddedToken> added_;
  std::unordered_map<std::string, int32_t> added_ids_;
  // What a token decodes to: for one that is sought in normalised text, its normalised form.
  std::unordered_map<int32_t, std::string> added_text_;
  std::unordered_set<std::string> special_;
  std::unordered_set<int32_t> special_ids_;
  TokenMatcher raw_matcher_;         // of the text as it is
  TokenMatcher normalized_matcher_;  // of the normalised text
  int64_t id_limit_ = 0;

  // Buffers and word caches that no call is using now: one for each call that ran at the same time.
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Workspace>> idle_;
};

}  // namespace lazytrain
