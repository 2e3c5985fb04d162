#include "data/tokenizer/bpe.h"

#include <algorithm>

#include "core/error.h"
#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/json_fields.h"
#include "data/tokenizer/utf8.h"

namespace lazytrain {
namespace {

constexpr char32_t kShortSymbols = 0x3000;

}  // namespace

BpeModel::BpeModel(TokenizerJson& json) : place_(json.place + ": model") {
  const JsonFields fields(json.root.at("model"), place_);
  prefix_ = fields.String("continuing_subword_prefix", "");
  suffix_ = fields.String("end_of_word_suffix", "");
  if (fields.Find("unk_token") != nullptr) unknown_ = fields.String("unk_token");
  fuse_unknown_ = fields.Bool("fuse_unk", false);
  byte_fallback_ = fields.Bool("byte_fallback", false);
  ignore_merges_ = fields.Bool("ignore_merges", false);
  if (const Json* dropout = fields.Find("dropout")) {
    if (!dropout->is_number() || dropout->get<double>() != 0) {
      throw RunError("{}: 'dropout' is {}, but merges are never dropped here; set it to null",
                     place_, dropout->dump());
    }
  }
  ReadVocabulary(json);
  ReadMerges(json);
  FillSymbolTables();
}

void BpeModel::ReadVocabulary(TokenizerJson& json) {
  if (!json.has_vocab) throw RunError("{}: 'vocab' is missing; use an intact file", place_);
  // Ids need not be without gaps, but a table by id must stay in proportion to the vocabulary.
  const auto limit = static_cast<int64_t>(json.vocab.size()) * 16 + 65536;
  int64_t largest = -1;
  for (const auto& [token, id] : json.vocab) {
    if (id < 0 || id >= std::min<int64_t>(limit, INT32_MAX)) {
      throw RunError(
          "{}: 'vocab' gives '{}' the id {}, which is out of range for {} tokens; use an "
          "intact file",
          place_, token, id, json.vocab.size());
    }
    largest = std::max(largest, id);
  }
  tokens_.resize(static_cast<size_t>(largest + 1));
  known_.resize(tokens_.size());
  for (auto& [token, id] : json.vocab) {
    const auto at = static_cast<size_t>(id);
    if (known_[at]) {
      throw RunError("{}: 'vocab' gives both '{}' and '{}' the id {}; use an intact file", place_,
                     tokens_[at], token, id);
    }
    tokens_[at] = std::move(token);
    known_[at] = true;
  }
  ids_.reserve(json.vocab.size());
  for (size_t id = 0; id < tokens_.size(); ++id) {
    if (!known_[id]) continue;
    if (!ids_.try_emplace(tokens_[id], static_cast<int32_t>(id)).second) {
      throw RunError("{}: 'vocab' has '{}' twice; use an intact file", place_, tokens_[id]);
    }
  }
  json.vocab = {};
}

void BpeModel::ReadMerges(TokenizerJson& json) {
  if (!json.has_merges) throw RunError("{}: 'merges' is missing; use an intact file", place_);
  merges_ = MergeTable(static_cast<int64_t>(json.merges.size()));
  const auto id_of = [&](std::string_view token, size_t rank) {
    const auto found = ids_.find(token);
    if (found == ids_.end()) {
      throw RunError("{}: 'merges', entry {}: '{}' is not in the vocabulary; use an intact file",
                     place_, rank, token);
    }
    return found->second;
  };
  std::string merged;
  for (size_t rank = 0; rank < json.merges.size(); ++rank) {
    const auto& [left, right] = json.merges[rank];
    const int32_t left_id = id_of(left, rank);
    const int32_t right_id = id_of(right, rank);
    // The right part loses its prefix, which is there only because it continues a word.
    if (right.size() < prefix_.size() || left.empty() || right.size() == prefix_.size()) {
      throw RunError("{}: 'merges', entry {}: '{}' and '{}' cannot be merged; use an intact file",
                     place_, rank, left, right);
    }
    merged.assign(left).append(right, prefix_.size());
    merges_.Set(left_id, right_id, {static_cast<uint32_t>(rank), id_of(merged, rank)});
  }
  json.merges = {};
}

void BpeModel::FillSymbolTables() {
  const auto id_of = [&](std::string_view token) { return TokenToId(token).value_or(-1); };
  for (size_t byte = 0; byte < 256; ++byte) {
    byte_tokens_[byte] = id_of(fmt::format("<0x{:02X}>", byte));
    byte_symbols_[byte] = id_of(BytesToAlphabet(std::string(1, static_cast<char>(byte))));
  }
  all_bytes_ = prefix_.empty() && suffix_.empty() &&
               std::all_of(std::begin(byte_symbols_), std::end(byte_symbols_),
                           [](int32_t id) { return id >= 0; });
  short_symbols_.resize(kShortSymbols);
  std::string symbol;
  for (char32_t code = 0; code < kShortSymbols; ++code) {
    symbol.clear();
    AppendUtf8(code, symbol);
    short_symbols_[code] = id_of(symbol);
  }
  if (unknown_) unknown_id_ = id_of(*unknown_);
}

std::optional<int32_t> BpeModel::TokenToId(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const std::string* BpeModel::IdToToken(int32_t id) const {
  const auto at = static_cast<size_t>(id);
  return id < 0 || at >= tokens_.size() || !known_[at] ? nullptr : &tokens_[at];
}

void BpeModel::Encode(std::string_view piece, PieceAlphabet alphabet, bool keep, BpeWorkspace& work,
                      std::vector<int32_t>& out) const {
  if (piece.empty()) return;
  keep = keep && WordCache::Keeps(piece);
  if (std::span<const int32_t> known; keep && work.words.Find(piece, known)) {
    out.insert(out.end(), known.begin(), known.end());
    return;
  }
  EncodeWord(piece, alphabet, work);
  if (keep) work.words.Insert(piece, work.tokens);
  out.insert(out.end(), work.tokens.begin(), work.tokens.end());
}

void BpeModel::EncodeWord(std::string_view piece, PieceAlphabet alphabet,
                          BpeWorkspace& work) const {
  work.tokens.clear();
  std::string_view spelling = piece;
  if (alphabet == PieceAlphabet::kByte && (ignore_merges_ || !all_bytes_)) {
    work.spelling.clear();
    AppendAlphabet(piece, work.spelling);
    spelling = work.spelling;
  }
  if (ignore_merges_) {
    if (const auto found = ids_.find(spelling); found != ids_.end()) {
      work.tokens.push_back(found->second);
      return;
    }
  }
  if (alphabet == PieceAlphabet::kByte && all_bytes_) {
    for (const char c : piece) {
      work.tokens.push_back(byte_symbols_[static_cast<unsigned char>(c)]);
    }
  } else {
    SplitText(spelling, work.tokens);
  }
  work.merger.Merge(merges_, work.tokens);
}

int32_t BpeModel::IdOf(std::string_view symbol, bool first, bool last) const {
  const bool prefixed = !first && !prefix_.empty();
  const bool suffixed = last && !suffix_.empty();
  if (prefixed || suffixed) {
    std::string whole = prefixed ? prefix_ : std::string();
    whole += symbol;
    if (suffixed) whole += suffix_;
    return TokenToId(whole).value_or(-1);
  }
  size_t position = 0;
  const char32_t code = NextCodePoint(symbol, position);
  if (code < kShortSymbols) return short_symbols_[code];
  return TokenToId(symbol).value_or(-1);
}

// The symbol as byte tokens, if the vocabulary has them all.
bool BpeModel::AppendBytes(std::string_view symbol, std::vector<int32_t>& symbols) const {
  const auto token_of = [&](char c) { return byte_tokens_[static_cast<unsigned char>(c)]; };
  if (std::any_of(symbol.begin(), symbol.end(), [&](char c) { return token_of(c) < 0; })) {
    return false;
  }
  for (const char c : symbol) symbols.push_back(token_of(c));
  return true;
}

void BpeModel::SplitText(std::string_view piece, std::vector<int32_t>& symbols) const {
  // An unknown token waits until the next known symbol, even while byte tokens pass it by: that is
  // the order of the reference.
  bool waiting = false;
  const auto add_waiting = [&] {
    if (waiting) symbols.push_back(unknown_id_);
    waiting = false;
  };
  for (size_t i = 0; i < piece.size();) {
    const bool first = i == 0;
    const std::string_view symbol = piece.substr(i, Utf8Length(piece[i]));
    i += symbol.size();
    const bool last = i == piece.size();
    if (const int32_t id = IdOf(symbol, first, last); id >= 0) {
      add_waiting();
      symbols.push_back(id);
      continue;
    }
    if (byte_fallback_) {
      // The bytes are those of the symbol with what was added to it.
      std::string whole = first ? std::string() : prefix_;
      whole += symbol;
      if (last) whole += suffix_;
      if (AppendBytes(whole, symbols)) continue;
    }
    if (!unknown_) continue;  // the reference drops what it has no token for
    if (unknown_id_ < 0) {
      throw RunError(
          "{}: the text has '{}', which has no token, and unk_token '{}' is not in the "
          "vocabulary; use an intact file",
          place_, symbol, *unknown_);
    }
    if (!fuse_unknown_) add_waiting();
    waiting = true;
  }
  add_waiting();
}

}  // namespace lazytrain
