#include "data/tokenizer/tokenize_lines.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "core/log.h"
#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/json_fields.h"
#include "data/tokenizer/normal_form.h"
#include "data/tokenizer/pre_tokenizer.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_folder.h"
#include "data/tokenizer/utf8.h"

namespace lazytrain {
namespace {

// From one line, as JSON, to the line that answers it.
using Answer = std::function<std::string(const JsonFields&)>;

// Cuts text as tokenizer_config.json says where the folder has no vocabulary.
class RegexPieces {
 public:
  RegexPieces(const std::string& pattern, const TokenizerConfig& config)
      : chain_(MakeRegexPreTokenizer(pattern, config.config_place + ": pretokenize_regex")) {
    const JsonFields fields(config.config, config.config_place);
    const Json* added = fields.Find("added_tokens_decoder");
    if (added == nullptr || !added->is_object()) return;
    for (const auto& [id, token] : added->items()) {
      const JsonFields entry(token, config.config_place + ": added_tokens_decoder: " + id);
      matcher_.Add(entry.String("content"), AddedToken{});
    }
  }

  std::vector<std::string> Cut(std::string_view text) const {
    std::vector<std::string> pieces;
    for (const TextPart& part : matcher_.Split(text)) {
      std::string normalized(part.text);
      if (part.token) {
        pieces.push_back(std::move(normalized));
        continue;
      }
      // Tokenizers with this key normalise to NFC.
      Normalize(NormalForm::kNfc, normalized);
      PieceList list;
      list.Add(normalized);
      chain_.Apply(list);
      pieces.insert(pieces.end(), list.pieces.begin(), list.pieces.end());
    }
    return pieces;
  }

 private:
  PreTokenizerChain chain_;
  TokenMatcher matcher_;
};

std::string IdsLine(const std::vector<int32_t>& ids) {
  std::string line = "{\"ids\": [";
  for (size_t i = 0; i < ids.size(); ++i) {
    fmt::format_to(std::back_inserter(line), "{}{}", i == 0 ? "" : ", ", ids[i]);
  }
  return line + "]}";
}

std::string PiecesLine(const std::vector<std::string>& pieces) {
  std::string line = "{\"pieces\": [";
  for (size_t i = 0; i < pieces.size(); ++i) {
    line.append(i == 0 ? "" : ", ").append(Json(pieces[i]).dump());
  }
  return line + "]}";
}

std::vector<int32_t> ReadIds(const JsonFields& line) {
  std::vector<int32_t> ids;
  for (const Json& id : line.Array("ids")) {
    if (!id.is_number_integer()) line.Refuse("ids", "made of whole numbers");
    // No token has an id beyond 32 bits; such a one is passed over like any other without a token.
    const bool fits = id.is_number_unsigned() ? id.get<uint64_t>() <= INT32_MAX : false;
    ids.push_back(fits ? id.get<int32_t>() : -1);
  }
  return ids;
}

Tokenizer LoadOnlyTokenizer(const TokenizeOptions& options) {
  if (options.file.empty()) return std::move(LoadTokenizer(options.model).tokenizer);
  return Tokenizer::FromFile(options.model / options.file);
}

Answer MakeAnswer(const TokenizeOptions& options) {
  if (options.pieces && options.file.empty() &&
      !std::filesystem::exists(options.model / "tokenizer.json")) {
    const TokenizerConfig config = ReadTokenizerConfig(options.model);
    const JsonFields fields(config.config, config.config_place);
    if (fields.Find("pretokenize_regex") != nullptr) {
      auto cutter = std::make_shared<RegexPieces>(fields.String("pretokenize_regex"), config);
      return
          [cutter](const JsonFields& line) { return PiecesLine(cutter->Cut(line.String("text"))); };
    }
  }
  auto tokenizer = std::make_shared<Tokenizer>(LoadOnlyTokenizer(options));
  if (options.decode) {
    return [tokenizer, skip = options.skip_special](const JsonFields& line) {
      return "{\"text\": " + Json(tokenizer->Decode(ReadIds(line), skip)).dump() + "}";
    };
  }
  if (options.pieces) {
    return [tokenizer](const JsonFields& line) {
      return PiecesLine(tokenizer->Pieces(line.String("text")));
    };
  }
  return [tokenizer, special = options.special](const JsonFields& line) {
    return IdsLine(tokenizer->Encode(line.String("text"), special));
  };
}

void CheckOptions(const TokenizeOptions& options) {
  if (options.decode && (options.pieces || options.special)) {
    throw UsageError("--decode excludes --pieces and --special; give one of them");
  }
  if (options.pieces && options.special) {
    throw UsageError("--pieces excludes --special; give one of them");
  }
  if (options.skip_special && !options.decode) {
    throw UsageError("--skip-special is for --decode; give both");
  }
}

void AnswerLines(std::istream& in, const std::string& place, const Answer& answer,
                 std::ostream& out) {
  int64_t number = 0;
  int64_t replaced = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (!IsValidUtf8(line)) line = RepairUtf8(line, replaced);
    const Json json = ParseJson(line, place, number);
    const JsonFields fields(json, fmt::format("{}:{}", place, number));
    out << answer(fields) << '\n';
    if (!out) throw RunError("cannot write the result: {}; free space there", std::strerror(errno));
  }
  if (in.bad()) throw RunError("{}: cannot read it; use a readable file", place);
  out.flush();
  if (!out) throw RunError("cannot write the result: {}; free space there", std::strerror(errno));
  if (replaced > 0) {
    Warn("{}: {} broken parts of UTF-8 were read as U+FFFD", place, replaced);
  }
}

}  // namespace

void TokenizeLines(const TokenizeOptions& options, std::istream& standard_input,
                   std::ostream& out) {
  CheckOptions(options);
  const Answer answer = MakeAnswer(options);
  if (options.input == "-") {
    AnswerLines(standard_input, "standard input", answer, out);
    return;
  }
  std::ifstream file(options.input, std::ios::binary);
  if (!file || std::filesystem::is_directory(options.input)) {
    throw RunError("{}: cannot open it: {}; use a readable file", options.input.string(),
                   file ? "it is a folder" : std::strerror(errno));
  }
  AnswerLines(file, options.input.string(), answer, out);
}

}  // namespace lazytrain
