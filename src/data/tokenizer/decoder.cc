#include "data/tokenizer/decoder.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>

#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/json_fields.h"
#include "data/tokenizer/text_pattern.h"
#include "data/tokenizer/utf8.h"

namespace lazytrain {
namespace {

using Tokens = std::vector<std::string>;
using Function = std::function<void(Tokens&)>;

constexpr const char* kKnown =
    "Sequence, ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace, BPEDecoder, WordPiece, "
    "CTC";
constexpr const char* kReplacement = "\xEF\xBF\xBD";

class FunctionDecoder : public Decoder {
 public:
  explicit FunctionDecoder(Function function) : function_(std::move(function)) {}
  void Apply(Tokens& tokens) const override { function_(tokens); }

 private:
  Function function_;
};

class SequenceDecoder : public Decoder {
 public:
  explicit SequenceDecoder(std::vector<std::unique_ptr<Decoder>> parts)
      : parts_(std::move(parts)) {}
  void Apply(Tokens& tokens) const override {
    for (const auto& part : parts_) part->Apply(tokens);
  }

 private:
  std::vector<std::unique_ptr<Decoder>> parts_;
};

std::string Join(const Tokens& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

void ReplaceAll(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  std::string replaced;
  size_t done = 0;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, done)) {
    replaced.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  if (done > 0) text = replaced.append(text, done);
}

// A token that is not spelled in the byte alphabet throughout stands for its own UTF-8.
void AppendTokenBytes(const std::string& token, std::string& bytes) {
  const size_t size = bytes.size();
  for (size_t i = 0; i < token.size();) {
    const std::optional<uint8_t> byte = ByteOfCharacter(NextCodePoint(token, i));
    if (!byte) {
      bytes.resize(size);
      bytes += token;
      return;
    }
    bytes.push_back(static_cast<char>(*byte));
  }
}

void DecodeByteLevel(Tokens& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) AppendTokenBytes(token, bytes);
  int64_t replaced = 0;
  if (!IsValidUtf8(bytes)) bytes = RepairUtf8(bytes, replaced);
  tokens.assign(1, std::move(bytes));
}

// The byte that "<0x0A>" stands for.
std::optional<char> ByteOfToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  std::string_view digits = token.substr(3, 2);
  if (digits[0] == '+') digits.remove_prefix(1);  // Rust's from_str_radix takes a plus sign
  unsigned byte = 0;
  const auto [end, error] = std::from_chars(digits.begin(), digits.end(), byte, 16);
  if (error != std::errc() || end != digits.end()) return std::nullopt;
  return static_cast<char>(byte);
}

// A run of bytes that is not valid as a whole becomes one replacement character a byte.
void DecodeByteFallback(Tokens& tokens) {
  Tokens decoded;
  std::string run;
  const auto flush = [&] {
    if (!run.empty() && IsValidUtf8(run)) {
      decoded.push_back(run);
    } else {
      decoded.insert(decoded.end(), run.size(), kReplacement);
    }
    run.clear();
  };
  for (std::string& token : tokens) {
    if (const std::optional<char> byte = ByteOfToken(token)) {
      run.push_back(*byte);
    } else {
      flush();
      decoded.push_back(std::move(token));
    }
  }
  flush();
  tokens = std::move(decoded);
}

Function MakeStrip(const JsonFields& fields) {
  const char32_t content = fields.Character("content");
  const int64_t start = fields.Integer("start");
  const int64_t stop = fields.Integer("stop");
  if (start < 0) fields.Refuse("start", "0 or more");
  if (stop < 0) fields.Refuse("stop", "0 or more");
  std::string character;
  AppendUtf8(content, character);
  return [=](Tokens& tokens) {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (int64_t i = 0; i < start && rest.starts_with(character); ++i) {
        rest.remove_prefix(character.size());
      }
      for (int64_t i = 0; i < stop && rest.ends_with(character); ++i) {
        rest.remove_suffix(character.size());
      }
      token = std::string(rest);
    }
  };
}

Function MakeMetaspace(const JsonFields& fields) {
  std::string replacement;
  AppendUtf8(fields.Character("replacement"), replacement);
  const std::string scheme =
      fields.String("prepend_scheme", fields.Bool("add_prefix_space", true) ? "always" : "never");
  const bool prepends = scheme != "never";
  return [=](Tokens& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      ReplaceAll(tokens[i], replacement, i == 0 && prepends ? "" : " ");
    }
  };
}

// The spaces that a word tokenizer puts before punctuation and clitics.
void CleanUp(std::string& text) {
  constexpr std::pair<const char*, const char*> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) ReplaceAll(text, from, to);
}

Function MakeWordPiece(const JsonFields& fields) {
  return [prefix = fields.String("prefix"), cleanup = fields.Bool("cleanup")](Tokens& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0 && token.starts_with(prefix)) {
        token.erase(0, prefix.size());
      } else if (i > 0) {
        token.insert(token.begin(), ' ');
      }
      if (cleanup) CleanUp(token);
    }
  };
}

Function MakeCtc(const JsonFields& fields) {
  return [pad = fields.String("pad_token"), delimiter = fields.String("word_delimiter_token"),
          cleanup = fields.Bool("cleanup")](Tokens& tokens) {
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    for (std::string& token : tokens) {
      ReplaceAll(token, pad, "");
      if (!cleanup) continue;
      CleanUp(token);
      ReplaceAll(token, delimiter, " ");
    }
    std::erase(tokens, "");
  };
}

Function MakeFunction(const JsonFields& fields) {
  const std::string type = fields.Type();
  if (type == "ByteLevel") return DecodeByteLevel;
  if (type == "ByteFallback") return DecodeByteFallback;
  if (type == "Fuse") return [](Tokens& tokens) { tokens.assign(1, Join(tokens)); };
  if (type == "Strip") return MakeStrip(fields);
  if (type == "Metaspace") return MakeMetaspace(fields);
  if (type == "WordPiece") return MakeWordPiece(fields);
  if (type == "CTC") return MakeCtc(fields);
  if (type == "Replace") {
    std::shared_ptr<TextPattern> pattern =
        ParseTextPattern(fields.Required("pattern"), fields.place() + ": Replace: pattern",
                         EmptyLiteral::kEverywhere);
    return [pattern, content = fields.String("content")](Tokens& tokens) {
      for (std::string& token : tokens) token = pattern->Replace(token, content);
    };
  }
  if (type == "BPEDecoder") {
    return [suffix = fields.String("suffix")](Tokens& tokens) {
      for (size_t i = 0; i < tokens.size(); ++i) {
        ReplaceAll(tokens[i], suffix, i + 1 == tokens.size() ? "" : " ");
      }
    };
  }
  fields.RefuseType("decoder", kKnown);
}

}  // namespace

std::unique_ptr<Decoder> ParseDecoder(const Json& json, const std::string& place) {
  const JsonFields fields(json, place);
  if (fields.Type() != "Sequence") return std::make_unique<FunctionDecoder>(MakeFunction(fields));
  std::vector<std::unique_ptr<Decoder>> parts;
  for (const Json& part : fields.Array("decoders")) parts.push_back(ParseDecoder(part, place));
  return std::make_unique<SequenceDecoder>(std::move(parts));
}

}  // namespace lazytrain
