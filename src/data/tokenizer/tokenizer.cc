#include "data/tokenizer/tokenizer.h"

#include <utility>

#include "core/log.h"
#include "data/tokenizer/pipeline.h"
#include "data/tokenizer/sentencepiece.h"
#include "data/tokenizer/text_encoder.h"
#include "data/tokenizer/tokenizer_json.h"
#include "data/tokenizer/utf8.h"

namespace lazytrain {

struct Tokenizer::State {
  std::unique_ptr<const TextEncoder> encoder;
  std::string place;
  std::atomic<int64_t> replacements{0};
};

Tokenizer::Tokenizer(std::unique_ptr<const TextEncoder> encoder, std::string place)
    : state_(std::make_unique<State>()) {
  state_->encoder = std::move(encoder);
  state_->place = std::move(place);
}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Tokenizer Tokenizer::FromFile(const Path& path) {
  if (path.extension() == ".model") return FromSentencePiece(path, true, false);
  TokenizerJson json = ReadTokenizerJson(path);
  return Tokenizer(std::make_unique<Pipeline>(json), path.string());
}

Tokenizer Tokenizer::FromSentencePiece(const Path& path, bool add_bos, bool add_eos) {
  SentencePieceModel model = ParseSentencePieceModel(ReadFile(path), path.string());
  return Tokenizer(
      std::make_unique<SentencePieceEncoder>(std::move(model), path.string(), add_bos, add_eos),
      path.string());
}

Tokenizer Tokenizer::FromJson(std::string_view json, const std::string& place) {
  TokenizerJson parsed = ParseTokenizerJson(json, place);
  return Tokenizer(std::make_unique<Pipeline>(parsed), place);
}

std::string_view Tokenizer::Repair(std::string_view text, std::string& repaired) const {
  if (IsValidUtf8(text)) return text;
  int64_t replaced = 0;
  repaired = RepairUtf8(text, replaced);
  if (state_->replacements.fetch_add(replaced) == 0) {
    Warn("{}: a text is not valid UTF-8; its broken parts are read as U+FFFD", state_->place);
  }
  return repaired;
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, bool add_special_tokens) const {
  std::string repaired;
  return state_->encoder->Encode(Repair(text, repaired), add_special_tokens);
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  return state_->encoder->Decode(ids, skip_special_tokens);
}

std::vector<std::string> Tokenizer::Pieces(std::string_view text) const {
  std::string repaired;
  return state_->encoder->Pieces(Repair(text, repaired));
}

std::optional<int32_t> Tokenizer::TokenToId(std::string_view token) const {
  return state_->encoder->TokenToId(token);
}

std::optional<std::string> Tokenizer::IdToToken(int32_t id) const {
  return state_->encoder->IdToToken(id);
}

bool Tokenizer::IsSpecial(int32_t id) const { return state_->encoder->IsSpecial(id); }

int64_t Tokenizer::vocab_size() const { return state_->encoder->vocab_size(); }

int64_t Tokenizer::replacements() const { return state_->replacements.load(); }

}  // namespace lazytrain
