// The "pre_tokenizer" of tokenizer.json: cuts normalised text into pieces (words, roughly), which
// the model then encodes one by one.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace lazytrain {

struct PieceList {
  std::vector<std::string_view> pieces;  // none is empty
  std::deque<std::string> storage;       // what pieces that were rewritten point into
  const char* start = nullptr;           // where the piece that begins the whole text begins

  std::string_view Keep(std::string text) { return storage.emplace_back(std::move(text)); }
  void Add(std::string_view piece) {
    if (!piece.empty()) pieces.push_back(piece);
  }
};

// One step of the cutting. Thread-safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Cuts each piece further.
  virtual void Apply(PieceList& list) const = 0;
};

struct PreTokenizerChain {
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  // The pieces are to be spelled in the byte alphabet (byte_level.h). The last step leaves that to
  // the model, which can do without it.
  bool byte_alphabet = false;

  void Apply(PieceList& list) const {
    for (const auto& step : steps) step->Apply(list);
  }
};

// Throws Error beginning with `place` for a component that is unknown or wrong.
PreTokenizerChain ParsePreTokenizer(const Json& json, const std::string& place);
// The chain that cuts by one regular expression, every match a piece and all between two as well.
PreTokenizerChain MakeRegexPreTokenizer(const std::string& pattern, const std::string& place);

}  // namespace lazytrain
