// Tokenizing JSON lines: what `lazytrain tokenize` does.
#pragma once

#include <istream>
#include <ostream>
#include <string>

#include "core/file.h"

namespace lazytrain {

struct TokenizeOptions {
  Path model{};               // the folder of the tokenizer
  std::string file{};         // its file in there; empty: tokenizer.json, else tokenizer.model
  bool special = false;       // with the special tokens around a text
  bool pieces = false;        // the pieces of the pre-tokenizer instead of ids
  bool decode = false;        // ids to text
  bool skip_special = false;  // when decoding, without special tokens
  Path input{};               // a file of JSON lines; "-": standard input
};

// Reads {"text": ...} from every line and writes {"ids": [...]} or {"pieces": [...]}, or reads
// {"ids": [...]} and writes {"text": ...}. Other keys of a line are ignored. `pieces` works without
// a vocabulary if tokenizer_config.json has "pretokenize_regex". Throws Error: UsageError for
// options that exclude each other, else one naming the file, and for a malformed line its number.
void TokenizeLines(const TokenizeOptions& options, std::istream& standard_input, std::ostream& out);

}  // namespace lazytrain
