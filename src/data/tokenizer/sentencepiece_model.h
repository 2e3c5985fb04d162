// The file tokenizer.model: a SentencePiece model (sentencepiece_model.proto of
// google/sentencepiece).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lazytrain {

enum class PieceType {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct SentencePiece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::kNormal;
};

struct SentencePieceModel {
  enum class Kind { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };

  std::vector<SentencePiece> pieces;  // by id
  Kind kind = Kind::kUnigram;
  bool byte_fallback = false;
  bool space_is_suffix = false;
  int32_t unknown_id = -1;
  int32_t bos_id = -1;  // -1: the model has none
  int32_t eos_id = -1;
  std::string unknown_surface = " \xE2\x81\x87 ";  // what <unk> decodes to

  std::string charsmap;  // the rules of the normalizer, see sentencepiece_normalizer.h
  bool add_dummy_prefix = true;
  bool remove_extra_spaces = true;
  bool escape_spaces = true;  // a space becomes U+2581
};

// Throws Error, beginning with `place`, for bytes that are no model or one of a kind other than
// unigram and BPE.
SentencePieceModel ParseSentencePieceModel(std::string_view bytes, const std::string& place);

}  // namespace lazytrain
