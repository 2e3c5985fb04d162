// The text normalization of SentencePiece.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/byte_trie.h"
#include "data/tokenizer/sentencepiece_model.h"

namespace lazytrain {

class SentencePieceNormalizer {
 public:
  // Throws Error, beginning with `place`, if the model's rules are broken.
  SentencePieceNormalizer(const SentencePieceModel& model, const std::string& place);

  // Rewrites by the model's rules, squeezes spaces and marks them as the model says. User-defined
  // pieces stay as they are. The text is valid UTF-8.
  std::string Normalize(std::string_view text) const;

 private:
  struct Rewritten {
    std::string_view text;
    size_t consumed;
  };
  Rewritten Prefix(std::string_view text) const;

  // The rules: a double-array trie (Yata 2007, as darts-clone stores it) from what is replaced to
  // an offset in `replacements_`, where the replacement ends with a zero byte.
  std::vector<uint32_t> units_;
  std::string replacements_;
  ByteTrie user_defined_;
  bool add_dummy_prefix_;
  bool remove_extra_spaces_;
  bool space_is_suffix_;
  std::string space_;
};

}  // namespace lazytrain
