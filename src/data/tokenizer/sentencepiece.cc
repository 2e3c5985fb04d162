#include "data/tokenizer/sentencepiece.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "data/tokenizer/sentencepiece_bpe.h"
#include "data/tokenizer/utf8.h"

namespace lazytrain {
namespace {

constexpr std::string_view kMark = "\xE2\x96\x81";  // U+2581
constexpr float kUnknownPenalty = 10;
constexpr float kUserDefinedBonus = 0.1F;  // for every byte but one

// The first character of the bytes if they begin with a whole one, else nothing.
std::string_view FirstCharacter(std::string_view bytes) {
  const std::string_view first = bytes.substr(0, Utf8Length(bytes[0]));
  return IsValidUtf8(first) ? first : std::string_view();
}

}  // namespace

SentencePieceEncoder::SentencePieceEncoder(SentencePieceModel model, const std::string& place,
                                           bool add_bos, bool add_eos)
    : model_(std::move(model)), normalizer_(model_, place) {
  IndexPieces(place);
  if (add_bos && model_.bos_id >= 0) before_.push_back(model_.bos_id);
  if (add_eos && model_.eos_id >= 0) after_.push_back(model_.eos_id);
}

void SentencePieceEncoder::IndexPieces(const std::string& place) {
  std::fill(std::begin(bytes_), std::end(bytes_), -1);
  lowest_score_ = std::numeric_limits<float>::max();
  for (size_t i = 0; i < model_.pieces.size(); ++i) {
    const SentencePiece& piece = model_.pieces[i];
    const auto id = static_cast<int32_t>(i);
    const bool in_text = piece.type == PieceType::kNormal || piece.type == PieceType::kUnused ||
                         piece.type == PieceType::kUserDefined;
    if (!(in_text ? pieces_ : reserved_).try_emplace(piece.text, id).second) {
      throw RunError("{}: the piece '{}' is there twice; use an intact file", place, piece.text);
    }
    if (in_text) trie_.Add(piece.text, id);
    if (piece.type == PieceType::kUserDefined) user_defined_.Add(piece.text, id);
    if (piece.type == PieceType::kNormal) {
      lowest_score_ = std::min(lowest_score_, piece.score);
    }
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    const auto found = reserved_.find(fmt::format("<0x{:02X}>", byte));
    if (found != reserved_.end() && At(found->second).type == PieceType::kByte) {
      bytes_[byte] = found->second;
    } else if (model_.byte_fallback) {
      throw RunError(
          "{}: the model falls back to bytes but has no piece <0x{:02X}>; use an intact "
          "file",
          place, byte);
    }
  }
}

int32_t SentencePieceEncoder::PieceId(std::string_view text) const {
  if (const auto found = reserved_.find(text); found != reserved_.end()) return found->second;
  const auto found = pieces_.find(text);
  return found == pieces_.end() ? model_.unknown_id : found->second;
}

std::vector<int32_t> SentencePieceEncoder::Encode(std::string_view text,
                                                  bool add_special_tokens) const {
  std::vector<int32_t> ids;
  if (add_special_tokens) ids = before_;
  const std::string normalized = normalizer_.Normalize(text);
  std::vector<Segment> segments;
  if (model_.kind == SentencePieceModel::Kind::kUnigram) {
    segments = EncodeUnigram(normalized);
  } else {
    for (const std::string_view piece :
         SentencePieceBpe(model_.pieces, pieces_, user_defined_).Encode(normalized)) {
      segments.push_back({piece, PieceId(piece)});
    }
  }
  bool after_unknown = false;
  for (const Segment& segment : segments) {
    const bool unknown = segment.id == model_.unknown_id;
    if (unknown && model_.byte_fallback) {
      for (const char c : segment.text) ids.push_back(bytes_[static_cast<unsigned char>(c)]);
    } else if (!unknown || !after_unknown) {  // a run of unknown pieces is one
      ids.push_back(segment.id);
    }
    after_unknown = unknown;
  }
  if (add_special_tokens) ids.insert(ids.end(), after_.begin(), after_.end());
  return ids;
}

// The most probable segmentation (Kudo 2018), by dynamic programming over the ends of pieces. Sums
// are of single precision and the first of equals counts, as in the original: that decides ties.
std::vector<SentencePieceEncoder::Segment> SentencePieceEncoder::EncodeUnigram(
    std::string_view text) const {
  struct End {
    int32_t id = -1;
    float score = 0;
    int64_t begin = -1;
  };
  std::vector<End> ends(text.size() + 1);
  const auto offer = [&](size_t begin, size_t end, int32_t id, float score) {
    const float total = score + ends[begin].score;
    if (ends[end].begin < 0 || total > ends[end].score) {
      ends[end] = {id, total, static_cast<int64_t>(begin)};
    }
  };
  for (size_t begin = 0; begin < text.size(); begin += Utf8Length(text[begin])) {
    const size_t length = Utf8Length(text[begin]);
    bool has_character = false;
    ByteTrie::Node node = ByteTrie::kRoot;
    for (size_t end = begin; end < text.size();) {
      node = trie_.Step(node, text[end++]);
      if (node == ByteTrie::kNone) break;
      const int32_t id = trie_.ValueAt(node);
      if (id < 0 || At(id).type == PieceType::kUnused) continue;
      const bool user_defined = At(id).type == PieceType::kUserDefined;
      offer(begin, end, id,
            user_defined ? kUserDefinedBonus * static_cast<float>(end - begin - 1) : At(id).score);
      has_character = has_character || end - begin == length;
    }
    if (!has_character) {
      offer(begin, begin + length, model_.unknown_id, lowest_score_ - kUnknownPenalty);
    }
  }
  std::vector<Segment> segments;
  for (size_t end = text.size(); end > 0;) {
    const auto begin = static_cast<size_t>(ends[end].begin);
    segments.push_back({text.substr(begin, end - begin), ends[end].id});
    end = begin;
  }
  std::reverse(segments.begin(), segments.end());
  return segments;
}

std::string SentencePieceEncoder::Decode(std::span<const int32_t> ids,
                                         bool /*skip_special_tokens*/) const {
  std::string text;
  std::string bytes;  // of a run of byte pieces
  const auto flush = [&] {
    for (std::string_view rest = bytes; !rest.empty();) {
      const std::string_view first = FirstCharacter(rest);
      text += first.empty() ? "\xEF\xBF\xBD" : first;
      rest.remove_prefix(std::max<size_t>(1, first.size()));
    }
    bytes.clear();
  };
  const bool drops_space = model_.add_dummy_prefix || model_.remove_extra_spaces;
  bool at_start = true;  // a space mark here is the one that was put in front
  bool dropped = false;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) continue;
    const SentencePiece& piece = At(id);
    if (piece.type == PieceType::kByte) {
      const auto byte = std::find(std::begin(bytes_), std::end(bytes_), id) - std::begin(bytes_);
      bytes.push_back(static_cast<char>(byte));
      continue;
    }
    flush();
    if (dropped || !text.empty()) at_start = false;
    dropped = false;
    if (piece.type == PieceType::kControl) continue;
    if (piece.type == PieceType::kUnknown) {
      text += model_.unknown_surface;
      continue;
    }
    std::string_view rest = piece.text;
    if (at_start && drops_space && rest.starts_with(kMark)) {
      rest.remove_prefix(kMark.size());
      dropped = !model_.remove_extra_spaces;
    }
    for (size_t i = 0; i < rest.size();) {
      const bool mark = rest.substr(i).starts_with(kMark);
      text += mark ? ' ' : rest[i];
      i += mark ? kMark.size() : 1;
    }
  }
  flush();
  return text;
}

std::vector<std::string> SentencePieceEncoder::Pieces(std::string_view text) const {
  std::string normalized = normalizer_.Normalize(text);
  if (normalized.empty()) return {};
  return {std::move(normalized)};
}

std::optional<int32_t> SentencePieceEncoder::TokenToId(std::string_view token) const {
  if (!reserved_.contains(token) && !pieces_.contains(token)) return std::nullopt;
  return PieceId(token);
}

std::optional<std::string> SentencePieceEncoder::IdToToken(int32_t id) const {
  if (id < 0 || id >= vocab_size()) return std::nullopt;
  return At(id).text;
}

bool SentencePieceEncoder::IsSpecial(int32_t id) const {
  return id >= 0 && id < vocab_size() &&
         (At(id).type == PieceType::kControl || At(id).type == PieceType::kUnknown);
}

}  // namespace lazytrain
