#include "data/tokenizer/sentencepiece_normalizer.h"

#include <cstring>

#include "core/error.h"
#include "data/tokenizer/utf8.h"

namespace lazytrain {
namespace {

constexpr const char* kMark = "\xE2\x96\x81";  // U+2581

// One unit of the double array.
bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t ValueOf(uint32_t unit) { return unit & 0x7FFFFFFF; }
uint32_t LabelOf(uint32_t unit) { return unit & 0x800000FF; }
uint32_t OffsetOf(uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

}  // namespace

SentencePieceNormalizer::SentencePieceNormalizer(const SentencePieceModel& model,
                                                 const std::string& place)
    : add_dummy_prefix_(model.add_dummy_prefix),
      remove_extra_spaces_(model.remove_extra_spaces),
      space_is_suffix_(model.space_is_suffix),
      space_(model.escape_spaces ? kMark : " ") {
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    if (piece.type == PieceType::kUserDefined) {
      user_defined_.Add(piece.text, static_cast<int32_t>(id));
    }
  }
  if (model.charsmap.empty()) return;
  uint32_t size = 0;
  const bool has_size = model.charsmap.size() > 4;
  if (has_size) std::memcpy(&size, model.charsmap.data(), 4);
  if (!has_size || size % 4 != 0 || size == 0 || size > model.charsmap.size() - 4) {
    throw RunError(
        "{}: the rules of the normalizer (precompiled_charsmap) are broken; use an intact "
        "file",
        place);
  }
  units_.resize(size / 4);
  std::memcpy(units_.data(), model.charsmap.data() + 4, size);
  replacements_ = model.charsmap.substr(4 + size);
}

// What the front of the text becomes: the longest rule counts.
SentencePieceNormalizer::Rewritten SentencePieceNormalizer::Prefix(std::string_view text) const {
  if (const ByteTrie::Found user = user_defined_.Longest(text); user.length > 0) {
    return {text.substr(0, user.length), user.length};
  }
  size_t longest = 0;
  uint32_t replacement = 0;
  uint64_t node = units_.empty() ? 0 : OffsetOf(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (node >= units_.size() || LabelOf(units_[node]) != byte) break;
    const uint32_t unit = units_[node];
    node ^= OffsetOf(unit);
    if (HasLeaf(unit) && node < units_.size()) {
      longest = i + 1;
      replacement = ValueOf(units_[node]);
    }
  }
  if (longest > 0 && replacement < replacements_.size()) {
    return {std::string_view(replacements_.c_str() + replacement), longest};
  }
  const size_t length = Utf8Length(text[0]);
  return {text.substr(0, length), length};
}

std::string SentencePieceNormalizer::Normalize(std::string_view text) const {
  while (remove_extra_spaces_ && !text.empty()) {
    const Rewritten prefix = Prefix(text);
    if (prefix.text != " ") break;
    text.remove_prefix(prefix.consumed);
  }
  std::string normalized;
  if (text.empty()) return normalized;
  if (add_dummy_prefix_ && !space_is_suffix_) normalized += space_;
  bool after_space = remove_extra_spaces_;
  while (!text.empty()) {
    const Rewritten prefix = Prefix(text);
    std::string_view part = prefix.text;
    while (after_space && part.starts_with(' ')) part.remove_prefix(1);
    for (const char c : part) {
      if (c == ' ') {
        normalized += space_;
      } else {
        normalized += c;
      }
    }
    if (!part.empty()) after_space = remove_extra_spaces_ && part.ends_with(' ');
    text.remove_prefix(prefix.consumed);
  }
  while (remove_extra_spaces_ && normalized.ends_with(space_)) {
    normalized.resize(normalized.size() - space_.size());
  }
  if (add_dummy_prefix_ && space_is_suffix_) normalized += space_;
  return normalized;
}

}  // namespace lazytrain
