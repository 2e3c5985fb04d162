// Tokens that are cut out of the text before anything else looks at it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "data/tokenizer/byte_trie.h"

namespace lazytrain {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // takes the white space behind it along
  bool normalized = false;   // sought, in normalised form, in the normalised text
  bool special = false;
};

// Reads one entry of "added_tokens"; `place` begins the messages.
AddedToken ParseAddedToken(const Json& json, const std::string& place);

// A part of a text: a token, or what lies between two.
struct TextPart {
  std::string_view text;
  std::optional<int32_t> token;
};

// Finds a set of tokens in a text, at each place the longest.
class TokenMatcher {
 public:
  // Seeks `pattern` for the token; of two equal patterns the first counts. An empty one is ignored.
  void Add(std::string_view pattern, const AddedToken& token);
  bool empty() const { return tokens_.empty(); }

  // Cuts the text into tokens and non-empty parts between them, in order. The flags of the tokens
  // are obeyed.
  std::vector<TextPart> Split(std::string_view text) const;

 private:
  ByteTrie trie_;  // values are indices into tokens_
  std::vector<AddedToken> tokens_;
};

}  // namespace lazytrain
