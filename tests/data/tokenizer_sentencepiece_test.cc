// SentencePiece models made here, byte by byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "core/error.h"
#include "core/file.h"
#include "data/tokenizer/sentencepiece.h"
#include "data/tokenizer/tokenizer.h"
#include "tests/temp_folder.h"

namespace lazytrain {
namespace {

using Ids = std::vector<int32_t>;

// Fields in the wire format of protocol buffers.
std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}
std::string IntegerField(uint64_t number, uint64_t value) {
  return Varint(number << 3) + Varint(value);
}
std::string BytesField(uint64_t number, const std::string& bytes) {
  return Varint(number << 3 | 2) + Varint(bytes.size()) + bytes;
}
std::string FloatField(uint64_t number, float value) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &value, 4);
  return Varint(number << 3 | 5) + bytes;
}

struct Piece {
  std::string text;
  float score;
  PieceType type = PieceType::kNormal;
};

std::string PieceField(const Piece& piece) {
  return BytesField(1, BytesField(1, piece.text) + FloatField(2, piece.score) +
                           IntegerField(3, static_cast<uint64_t>(piece.type)));
}

// A model with <unk>, <s>, </s> in front of the pieces.
std::string Model(const std::vector<Piece>& pieces, uint64_t kind, const std::string& trainer = "",
                  const std::string& normalizer = "") {
  std::string model = PieceField({"<unk>", 0, PieceType::kUnknown}) +
                      PieceField({"<s>", 0, PieceType::kControl}) +
                      PieceField({"</s>", 0, PieceType::kControl});
  for (const Piece& piece : pieces) model += PieceField(piece);
  return model + BytesField(2, IntegerField(3, kind) + trainer) + BytesField(3, normalizer);
}

constexpr uint64_t kUnigram = 1;
constexpr uint64_t kBpe = 2;

SentencePieceEncoder Encoder(const std::string& model) {
  return {ParseSentencePieceModel(model, "x.model"), "x.model", true, true};
}

// No dummy prefix, spaces kept.
const std::string kPlain = IntegerField(3, 0) + IntegerField(4, 0);

TEST(SentencePieceTest, BpeMergesByScore) {
  const std::vector<Piece> pieces = {{"a", -9},  {"b", -9},  {"c", -9},
                                     {"ab", -2}, {"bc", -1}, {"abc", -3}};
  EXPECT_EQ(Encoder(Model(pieces, kBpe, "", kPlain)).Encode("abc", false), (Ids{8}));
  // Without the whole, the better pair counts.
  const std::vector<Piece> pairs(pieces.begin(), pieces.end() - 1);
  EXPECT_EQ(Encoder(Model(pairs, kBpe, "", kPlain)).Encode("abc", false), (Ids{3, 7}));
}

TEST(SentencePieceTest, BpeCutsUnusedPiecesAgain) {
  const std::vector<Piece> pieces = {{"a", -9},
                                     {"b", -9},
                                     {"ab", -1, PieceType::kUnused},
                                     {"abab", -2},
                                     {"aba", -8, PieceType::kUnused}};
  const SentencePieceEncoder encoder = Encoder(Model(pieces, kBpe, "", kPlain));
  EXPECT_EQ(encoder.Encode("abab", false), (Ids{6}));
  EXPECT_EQ(encoder.Encode("aba", false), (Ids{3, 4, 3}));
}

TEST(SentencePieceTest, BpeNeverMergesUserDefinedPieces) {
  const std::vector<Piece> pieces = {
      {"a", -9}, {"b", -9}, {"ab", -1}, {"bb", 0, PieceType::kUserDefined}, {"abb", -1}};
  EXPECT_EQ(Encoder(Model(pieces, kBpe, "", kPlain)).Encode("abbab", false), (Ids{3, 6, 5}));
}

TEST(SentencePieceTest, UnigramFindsTheMostProbableSegmentation) {
  const std::vector<Piece> pieces = {{"a", -1},  {"b", -3},  {"ab", -3.5F},
                                     {"bb", -3}, {"II", -2}, {"I", -1.5F}};
  const SentencePieceEncoder encoder = Encoder(Model(pieces, kUnigram, "", kPlain));
  EXPECT_EQ(encoder.Encode("ab", false), (Ids{5}));
  EXPECT_EQ(encoder.Encode("abb", false), (Ids{3, 6}));
  EXPECT_EQ(encoder.Encode("III", false), (Ids{8, 7}));  // a tie: the first offered counts
  EXPECT_EQ(encoder.Encode("axyb", false), (Ids{3, 0, 4}));
}

TEST(SentencePieceTest, FallsBackToBytes) {
  std::vector<Piece> pieces = {{"a", -1}};
  for (int byte = 0; byte < 256; ++byte) {
    pieces.push_back({fmt::format("<0x{:02X}>", byte), 0, PieceType::kByte});
  }
  for (const uint64_t kind : {kUnigram, kBpe}) {
    const SentencePieceEncoder encoder = Encoder(Model(pieces, kind, IntegerField(35, 1), kPlain));
    EXPECT_EQ(encoder.Encode("\xC3\xA9\x61", false), (Ids{4 + 0xC3, 4 + 0xA9, 3}));
    EXPECT_EQ(encoder.Decode(Ids{4 + 0xC3, 4 + 0xA9, 3, 4 + 0xC3, 4 + 0x41}, false),
              "\xC3\xA9\x61\xEF\xBF\xBD\x41");
  }
  pieces.pop_back();
  EXPECT_THROW(Encoder(Model(pieces, kBpe, IntegerField(35, 1), kPlain)), Error);
}

TEST(SentencePieceTest, MarksAndSqueezesSpaces) {
  const std::vector<Piece> pieces = {{"a", -1}, {"\xE2\x96\x81", -1}};
  const auto normalized = [&](const std::string& settings, const std::string& trainer,
                              const char* text) {
    const std::vector<std::string> cut =
        Encoder(Model(pieces, kUnigram, trainer, settings)).Pieces(text);
    return cut.empty() ? std::string() : cut[0];
  };
  EXPECT_EQ(normalized("", "", "  a  a "), "\xE2\x96\x81\x61\xE2\x96\x81\x61");
  EXPECT_EQ(normalized("", "", "   "), "");
  EXPECT_EQ(normalized(IntegerField(4, 0), "", " a"), "\xE2\x96\x81\xE2\x96\x81\x61");
  EXPECT_EQ(normalized(kPlain, "", " a "), "\xE2\x96\x81\x61\xE2\x96\x81");
  EXPECT_EQ(normalized(IntegerField(5, 0), "", "a a"), " a a");
  EXPECT_EQ(normalized("", IntegerField(24, 1), " a"), "a\xE2\x96\x81");
}

TEST(SentencePieceTest, DecodesSpecialPiecesAndSpaces) {
  const std::vector<Piece> pieces = {{"\xE2\x96\x81\x61", -1}, {"b\xE2\x96\x81", -1}};
  const SentencePieceEncoder encoder = Encoder(Model(pieces, kBpe));
  EXPECT_EQ(encoder.Decode(Ids{1, 3, 4, 3, 2}, false), "ab  a");
  EXPECT_EQ(encoder.Decode(Ids{3, 0, 99, -1}, false), "a \xE2\x81\x87 ");
  EXPECT_EQ(Encoder(Model(pieces, kBpe, BytesField(44, "?"))).Decode(Ids{0}, true), "?");
  EXPECT_EQ(encoder.Encode("a", true), (Ids{1, 3, 2}));
  EXPECT_TRUE(encoder.IsSpecial(1));
  EXPECT_FALSE(encoder.IsSpecial(3));
  EXPECT_EQ(encoder.TokenToId("</s>"), 2);
  EXPECT_EQ(encoder.TokenToId("x"), std::nullopt);
  EXPECT_EQ(encoder.IdToToken(3), "\xE2\x96\x81\x61");
  EXPECT_EQ(encoder.vocab_size(), 5);
}

// A double-array trie with the one rule "A" -> "a".
std::string Charsmap(uint32_t offset_of_text) {
  const auto unit = [](uint32_t value) {
    std::string bytes(4, '\0');
    std::memcpy(bytes.data(), &value, 4);
    return bytes;
  };
  std::vector<uint32_t> units(256);
  // The root's offset is 1, so 'A' leads to unit 1 ^ 'A'; that has the label 'A', a leaf and the
  // offset 2, so the value is in unit 1 ^ 'A' ^ 2.
  units[0] = 1U << 10;
  units[1 ^ 'A'] = 'A' | 1U << 8 | 2U << 10;
  units[1 ^ 'A' ^ 2] = 1U << 31 | offset_of_text;
  std::string bytes = unit(static_cast<uint32_t>(units.size()) * 4);
  for (const uint32_t value : units) bytes += unit(value);
  return bytes + std::string("x\0a\0", 4);
}

TEST(SentencePieceTest, RewritesByTheRulesOfTheModel) {
  const auto normalized = [](const std::string& charsmap) {
    return Encoder(Model({{"a", -1}}, kBpe, "", kPlain + BytesField(2, charsmap))).Pieces("bAA")[0];
  };
  EXPECT_EQ(normalized(Charsmap(2)), "baa");
  EXPECT_EQ(normalized(Charsmap(1000)), "bAA");  // beyond the end
  EXPECT_THROW(normalized("abc"), Error);
  EXPECT_THROW(normalized(Charsmap(2).substr(0, 500)), Error);
}

std::string ErrorOf(const std::string& model) {
  try {
    Encoder(model);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(SentencePieceTest, RefusesWhatIsNoModel) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "no piece stands for unknown text"},
      {"\xFF", "a number has no end"},
      {"\x0A\x7F", "the file ends within a field"},
      {"\x0B", "unknown wire type 3"},
      {Model({{"", 0}}, kBpe), "a piece is empty"},
      {Model({{"\xFF", 0}}, kBpe), "a piece is not valid UTF-8"},
      {Model({{"a", 0}, {"a", 0}}, kBpe), "the piece 'a' is there twice"},
      {Model({{"a", 0, PieceType::kUnknown}}, kBpe), "two pieces are unknown"},
      {Model({{"a", 0, static_cast<PieceType>(9)}}, kBpe), "unknown type 9"},
      {Model({}, 3), "of the type word"},
      {Model({}, 4), "of the type char"},
      {Model({}, 7), "unknown model type 7"},
      {Model({}, kBpe) + BytesField(5, BytesField(2, "rules")), "rewrites text after decoding"},
      {IntegerField(1, 5), "field 1 has the wrong wire type 0"},
  };
  for (const auto& [model, message] : cases) {
    EXPECT_THAT(ErrorOf(model), testing::StartsWith("x.model: ")) << message;
    EXPECT_THAT(ErrorOf(model), testing::HasSubstr(message));
  }
}

TEST(SentencePieceFuzzTest, RefusesOrUsesEveryMutatedModel) {
  const std::string whole = Model({{"a", -1},
                                   {"ab", -2, PieceType::kUnused},
                                   {"b", -3},
                                   {"aba", -1},
                                   {"bb", 0, PieceType::kUserDefined},
                                   {"\xE2\x96\x81", -2}},
                                  kBpe, "", BytesField(2, Charsmap(2)));
  std::mt19937 random(11);
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string model = whole;
    for (size_t i = 0, count = 1 + random() % 3; i < count; ++i) {
      model[random() % model.size()] = static_cast<char>(random() % 256);
    }
    if (random() % 4 == 0) model.resize(random() % model.size());
    try {
      const SentencePieceEncoder encoder = Encoder(model);
      encoder.Decode(encoder.Encode(" abAbaa \xC3\xA9 bb", true), false);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 4900);
}

TEST(SentencePieceTest, FromFileTakesModelsByTheirName) {
  const TempFolder folder;
  const Path path = folder.path() / "plain.model";
  WriteFile(path, Model({{"a", -1}}, kBpe, "", kPlain));
  EXPECT_EQ(Tokenizer::FromFile(path).Encode("a", true), (Ids{1, 3}));
  EXPECT_EQ(Tokenizer::FromSentencePiece(path, false, true).Encode("a", true), (Ids{3, 2}));
}

}  // namespace
}  // namespace lazytrain
