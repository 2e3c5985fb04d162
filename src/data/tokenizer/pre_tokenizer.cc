#include "data/tokenizer/pre_tokenizer.h"

#include <functional>
#include <utility>

#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/json_fields.h"
#include "data/tokenizer/regex.h"
#include "data/tokenizer/split_behavior.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"
#include "data/tokenizer/word_split.h"

namespace lazytrain {
namespace {

constexpr const char* kKnown =
    "Sequence, ByteLevel, Split, Metaspace, Digits, Punctuation, Whitespace, WhitespaceSplit, "
    "CharDelimiterSplit, BertPreTokenizer, FixedLength";

using Pieces = std::vector<std::string_view>;
using Step = std::unique_ptr<PreTokenizer>;

// A step that cuts each piece by itself.
class Cutter : public PreTokenizer {
 public:
  using Function = std::function<void(std::string_view, Pieces&)>;
  explicit Cutter(Function cut) : cut_(std::move(cut)) {}

  void Apply(PieceList& list) const override {
    Pieces cut;
    for (const std::string_view piece : list.pieces) cut_(piece, cut);
    std::erase_if(cut, [](std::string_view piece) { return piece.empty(); });
    list.pieces = std::move(cut);
  }

 private:
  Function cut_;
};

// A step that rewrites each piece, told whether it begins the text.
class Rewriter : public PreTokenizer {
 public:
  using Function = std::function<std::string(std::string_view, bool)>;
  explicit Rewriter(Function rewrite) : rewrite_(std::move(rewrite)) {}

  void Apply(PieceList& list) const override {
    for (size_t i = 0; i < list.pieces.size(); ++i) {
      std::string_view& piece = list.pieces[i];
      const bool at_start = piece.data() == list.start;
      piece = list.Keep(rewrite_(piece, at_start));
      if (at_start) list.start = piece.data();
    }
  }

 private:
  Function rewrite_;
};

// Cuts around runs of the characters for which `is_match` holds, or around each one.
template <typename IsMatch>
Step CutCharacters(IsMatch is_match, SplitBehavior behavior) {
  return std::make_unique<Cutter>([=](std::string_view text, Pieces& pieces) {
    std::vector<TextSpan> matches;
    for (size_t i = 0; i < text.size();) {
      const size_t begin = i;
      if (is_match(NextCodePoint(text, i))) matches.push_back({begin, i});
    }
    SplitAt(text, matches, false, behavior, pieces);
  });
}

Step CutByPattern(std::shared_ptr<const TextPattern> pattern, bool invert, SplitBehavior behavior) {
  return std::make_unique<Cutter>([=](std::string_view text, Pieces& pieces) {
    SplitAt(text, pattern->FindAll(text), invert, behavior, pieces);
  });
}

Step CutIntoWords(const std::string& pattern, const std::string& place) {
  if (std::shared_ptr<const WordSplitter> splitter = FindWordSplitter(pattern)) {
    return std::make_unique<Cutter>(
        [=](std::string_view text, Pieces& pieces) { splitter->Split(text, pieces); });
  }
  auto regex = std::make_shared<Regex>(pattern, place);
  return std::make_unique<Cutter>([=](std::string_view text, Pieces& pieces) {
    SplitAt(text, regex->FindAll(text), false, SplitBehavior::kIsolated, pieces);
  });
}

void AddSplit(const JsonFields& fields, std::vector<Step>& steps) {
  const SplitBehavior behavior = ParseSplitBehavior(fields, "behavior");
  const bool invert = fields.Bool("invert");
  const Json& pattern = fields.Required("pattern");
  const std::string place = fields.place() + ": Split: pattern";
  if (!invert && behavior == SplitBehavior::kIsolated && pattern.is_object() &&
      pattern.contains("Regex")) {
    steps.push_back(CutIntoWords(JsonFields(pattern, place).String("Regex"), place));
    return;
  }
  steps.push_back(
      CutByPattern(ParseTextPattern(pattern, place, EmptyLiteral::kNowhere), invert, behavior));
}

void AddByteLevel(const JsonFields& fields, std::vector<Step>& steps) {
  if (fields.Bool("add_prefix_space")) {
    steps.push_back(std::make_unique<Rewriter>([](std::string_view piece, bool /*at_start*/) {
      std::string text(piece.starts_with(' ') ? 0 : 1, ' ');
      return text.append(piece);
    }));
  }
  if (fields.Bool("use_regex", true)) {
    steps.push_back(CutIntoWords(kGpt2Pattern, fields.place()));
  }
}

// Words of alphabetic characters, runs of others; white space is dropped.
void CutWhitespace(std::string_view text, Pieces& pieces) {
  const auto kind_of = [](char32_t code) {
    return IsWordCharacter(code) ? 1 : IsWhiteSpace(code) ? 0 : 2;
  };
  size_t begin = 0;
  int kind = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t at = i;
    const int next = kind_of(NextCodePoint(text, i));
    if (next == kind) continue;
    if (kind != 0) pieces.push_back(text.substr(begin, at - begin));
    begin = at;
    kind = next;
  }
  if (kind != 0) pieces.push_back(text.substr(begin));
}

void AddMetaspace(const JsonFields& fields, std::vector<Step>& steps) {
  std::string mark;
  AppendUtf8(fields.Character("replacement"), mark);
  const std::string scheme =
      fields.String("prepend_scheme", fields.Bool("add_prefix_space", true) ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    fields.Refuse("prepend_scheme", "always, first or never");
  }
  steps.push_back(std::make_unique<Rewriter>([=](std::string_view piece, bool at_start) {
    std::string text;
    for (const char c : piece) {
      if (c == ' ') {
        text += mark;
      } else {
        text += c;
      }
    }
    const bool prepends = scheme == "always" || (scheme == "first" && at_start);
    if (prepends && !text.starts_with(mark)) text.insert(0, mark);
    return text;
  }));
  if (!fields.Bool("split", true)) return;
  size_t first = 0;
  const char32_t code = NextCodePoint(mark, first);
  steps.push_back(
      CutCharacters([code](char32_t c) { return c == code; }, SplitBehavior::kMergedWithNext));
}

void AddFixedLength(const JsonFields& fields, std::vector<Step>& steps) {
  const int64_t length = fields.Integer("length");
  if (length < 1) fields.Refuse("length", "1 or more");
  steps.push_back(std::make_unique<Cutter>([length](std::string_view text, Pieces& pieces) {
    size_t begin = 0;
    int64_t count = 0;
    for (size_t i = 0; i < text.size(); i += Utf8Length(text[i])) {
      if (count++ % length != 0) continue;
      pieces.push_back(text.substr(begin, i - begin));
      begin = i;
    }
    pieces.push_back(text.substr(begin));
  }));
}

void AddSteps(const Json& json, const std::string& place, bool is_last, PreTokenizerChain& chain) {
  const JsonFields fields(json, place);
  const std::string type = fields.Type();
  std::vector<Step>& steps = chain.steps;
  if (type == "Sequence") {
    const Json& parts = fields.Array("pretokenizers");
    for (size_t i = 0; i < parts.size(); ++i) {
      AddSteps(parts[i], place, is_last && i + 1 == parts.size(), chain);
    }
  } else if (type == "ByteLevel") {
    AddByteLevel(fields, steps);
    chain.byte_alphabet = is_last;
    if (!is_last) {
      steps.push_back(std::make_unique<Rewriter>(
          [](std::string_view piece, bool /*at_start*/) { return BytesToAlphabet(piece); }));
    }
  } else if (type == "Split") {
    AddSplit(fields, steps);
  } else if (type == "Metaspace") {
    AddMetaspace(fields, steps);
  } else if (type == "Digits") {
    steps.push_back(CutCharacters(IsNumeric, fields.Bool("individual_digits")
                                                 ? SplitBehavior::kIsolated
                                                 : SplitBehavior::kContiguous));
  } else if (type == "Punctuation") {
    const bool given = fields.Find("behavior") != nullptr;
    steps.push_back(CutCharacters(
        IsPunctuation, given ? ParseSplitBehavior(fields, "behavior") : SplitBehavior::kIsolated));
  } else if (type == "Whitespace") {
    steps.push_back(std::make_unique<Cutter>(CutWhitespace));
  } else if (type == "WhitespaceSplit") {
    steps.push_back(CutCharacters(IsWhiteSpace, SplitBehavior::kRemoved));
  } else if (type == "CharDelimiterSplit") {
    const char32_t delimiter = fields.Character("delimiter");
    steps.push_back(CutCharacters([delimiter](char32_t code) { return code == delimiter; },
                                  SplitBehavior::kRemoved));
  } else if (type == "BertPreTokenizer") {
    steps.push_back(CutCharacters(IsWhiteSpace, SplitBehavior::kRemoved));
    steps.push_back(CutCharacters(IsPunctuation, SplitBehavior::kIsolated));
  } else if (type == "FixedLength") {
    AddFixedLength(fields, steps);
  } else {
    fields.RefuseType("pre_tokenizer", kKnown);
  }
}

}  // namespace

PreTokenizerChain ParsePreTokenizer(const Json& json, const std::string& place) {
  PreTokenizerChain chain;
  AddSteps(json, place, true, chain);
  return chain;
}

PreTokenizerChain MakeRegexPreTokenizer(const std::string& pattern, const std::string& place) {
  PreTokenizerChain chain;
  chain.steps.push_back(CutIntoWords(pattern, place));
  return chain;
}

}  // namespace lazytrain
