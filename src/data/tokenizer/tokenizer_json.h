// The file tokenizer.json, read in one pass.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/file.h"
#include "core/json.h"

namespace lazytrain {

// A vocabulary has hundreds of thousands of entries, so "model.vocab" (an object) and
// "model.merges" go straight into arrays; everything else is in `root`, where model.vocab and
// model.merges are absent.
struct TokenizerJson {
  std::string place;  // the file's name, for messages
  Json root;
  bool has_vocab = false;
  std::vector<std::pair<std::string, int64_t>> vocab;
  bool has_merges = false;
  std::vector<std::pair<std::string, std::string>> merges;  // from ["a", "b"] or "a b"
};

// Throws Error for malformed JSON (with its line), nesting deeper than 200 levels, an id that is no
// whole number and a merge that is no pair.
TokenizerJson ParseTokenizerJson(std::string_view text, std::string place);
TokenizerJson ReadTokenizerJson(const Path& path);

}  // namespace lazytrain
