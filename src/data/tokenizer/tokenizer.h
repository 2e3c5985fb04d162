// Text to token ids and back.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/file.h"

namespace lazytrain {

class TextEncoder;

// A tokenizer as the Hugging Face library `tokenizers` (0.23) runs tokenizer.json, or as
// SentencePiece runs a .model file. Texts need not be valid UTF-8: every maximal broken part counts
// as U+FFFD. All members are thread-safe; a moved-from Tokenizer may only be assigned to.
class Tokenizer {
 public:
  // Reads tokenizer.json, or a SentencePiece model if the name ends in ".model". Throws Error
  // naming the file for one that is missing, broken, or made of components this program does not
  // know. "truncation" and "padding" of tokenizer.json are not applied.
  static Tokenizer FromFile(const Path& path);
  // Reads a SentencePiece model. Which special tokens Encode puts around a text if asked to is not
  // in the file: <s> in front and </s> behind, as said here. (FromFile: <s> only.)
  static Tokenizer FromSentencePiece(const Path& path, bool add_bos, bool add_eos);
  // The same as FromFile of a text in memory; `place` is what messages call it.
  static Tokenizer FromJson(std::string_view json, const std::string& place);

  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // `add_special_tokens`: with the special tokens that the post-processor puts around a text.
  // Special tokens written out in the text become those tokens in any case (not with
  // SentencePiece).
  std::vector<int32_t> Encode(std::string_view text, bool add_special_tokens) const;

  // Ids without a token are passed over. Bytes that are not valid UTF-8 become U+FFFD.
  std::string Decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

  // What the model encodes one by one: added tokens, and the pieces of normalised text that the
  // pre-tokenizer cuts (as text, even where the vocabulary spells bytes).
  std::vector<std::string> Pieces(std::string_view text) const;

  std::optional<int32_t> TokenToId(std::string_view token) const;
  std::optional<std::string> IdToToken(int32_t id) const;
  // Whether the file marks the token as special. Decode passes over these if asked to, but for
  // those whose normalised form is not what the file says.
  bool IsSpecial(int32_t id) const;
  // One more than the largest id: the rows that an embedding needs at least.
  int64_t vocab_size() const;

  // How often broken UTF-8 was replaced in Encode and Pieces so far. The first time is also told to
  // the user.
  int64_t replacements() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<const TextEncoder> encoder, std::string place);
  // The text itself, or its repaired form in `repaired`.
  std::string_view Repair(std::string_view text, std::string& repaired) const;

  std::unique_ptr<State> state_;
};

}  // namespace lazytrain
