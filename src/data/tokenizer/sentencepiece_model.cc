#include "data/tokenizer/sentencepiece_model.h"

#include "core/error.h"
#include "data/tokenizer/proto_reader.h"
#include "data/tokenizer/utf8.h"

namespace lazytrain {
namespace {

SentencePiece ReadPiece(std::string_view bytes, const std::string& place) {
  SentencePiece piece;
  ProtoReader fields(bytes, place);
  while (fields.Next()) {
    if (fields.number() == 1) piece.text = fields.Bytes();
    if (fields.number() == 2) piece.score = fields.Float();
    if (fields.number() == 3) {
      const int64_t type = fields.Integer();
      if (type < 1 || type > 6) fields.Fail(fmt::format("a piece has the unknown type {}", type));
      piece.type = static_cast<PieceType>(type);
    }
  }
  if (piece.text.empty()) fields.Fail("a piece is empty");
  if (!IsValidUtf8(piece.text)) fields.Fail("a piece is not valid UTF-8");
  if (piece.score != piece.score) fields.Fail("a piece has no number as its score");
  return piece;
}

void ReadTrainerSpec(std::string_view bytes, const std::string& place, SentencePieceModel& model) {
  // Defaults of the format.
  int64_t bos = 1;
  int64_t eos = 2;
  ProtoReader fields(bytes, place);
  while (fields.Next()) {
    switch (fields.number()) {
      case 3: {
        const int64_t kind = fields.Integer();
        if (kind < 1 || kind > 4) fields.Fail(fmt::format("unknown model type {}", kind));
        model.kind = static_cast<SentencePieceModel::Kind>(kind);
        break;
      }
      case 24:
        model.space_is_suffix = fields.Bool();
        break;
      case 35:
        model.byte_fallback = fields.Bool();
        break;
      case 41:
        bos = fields.Integer();
        break;
      case 42:
        eos = fields.Integer();
        break;
      case 44:
        model.unknown_surface = fields.Bytes();
        break;
      default:
        break;
    }
  }
  const auto id_of = [](int64_t id) {
    return id >= 0 && id < INT32_MAX ? static_cast<int32_t>(id) : -1;
  };
  model.bos_id = id_of(bos);
  model.eos_id = id_of(eos);
}

void ReadNormalizerSpec(std::string_view bytes, const std::string& place,
                        SentencePieceModel& model) {
  ProtoReader fields(bytes, place);
  while (fields.Next()) {
    if (fields.number() == 2) model.charsmap = fields.Bytes();
    if (fields.number() == 3) model.add_dummy_prefix = fields.Bool();
    if (fields.number() == 4) model.remove_extra_spaces = fields.Bool();
    if (fields.number() == 5) model.escape_spaces = fields.Bool();
  }
}

void CheckDenormalizer(std::string_view bytes, const std::string& place) {
  ProtoReader fields(bytes, place);
  while (fields.Next()) {
    if (fields.number() == 2 && !fields.Bytes().empty()) {
      throw RunError(
          "{}: the model rewrites text after decoding (denormalizer_spec), which is not "
          "supported; use a model without",
          place);
    }
  }
}

// Finds the special pieces and checks that what the trainer's settings name is there.
void CheckPieces(const std::string& place, SentencePieceModel& model) {
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type != PieceType::kUnknown) continue;
    if (model.unknown_id >= 0)
      throw RunError("{}: two pieces are unknown; use an intact file", place);
    model.unknown_id = static_cast<int32_t>(id);
  }
  if (model.unknown_id < 0) {
    throw RunError("{}: no piece stands for unknown text; use an intact SentencePiece model",
                   place);
  }
  const auto check = [&](int32_t& id) {
    const auto at = static_cast<size_t>(id);
    if (id >= 0 && (at >= model.pieces.size() || model.pieces[at].type != PieceType::kControl)) {
      id = -1;
    }
  };
  check(model.bos_id);
  check(model.eos_id);
}

}  // namespace

SentencePieceModel ParseSentencePieceModel(std::string_view bytes, const std::string& place) {
  SentencePieceModel model;
  model.bos_id = 1;
  model.eos_id = 2;
  ProtoReader fields(bytes, place);
  while (fields.Next()) {
    if (fields.number() == 1) model.pieces.push_back(ReadPiece(fields.Bytes(), place));
    if (fields.number() == 2) ReadTrainerSpec(fields.Bytes(), place, model);
    if (fields.number() == 3) ReadNormalizerSpec(fields.Bytes(), place, model);
    if (fields.number() == 5) CheckDenormalizer(fields.Bytes(), place);
  }
  CheckPieces(place, model);
  if (model.kind != SentencePieceModel::Kind::kUnigram &&
      model.kind != SentencePieceModel::Kind::kBpe) {
    throw RunError(
        "{}: the model is of the type {}, which is not supported; use one of the type "
        "unigram or BPE",
        place, model.kind == SentencePieceModel::Kind::kWord ? "word" : "char");
  }
  return model;
}

}  // namespace lazytrain
