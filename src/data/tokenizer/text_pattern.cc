#include "data/tokenizer/text_pattern.h"

#include "data/tokenizer/json_fields.h"
#include "data/tokenizer/regex.h"

namespace lazytrain {
namespace {

class Literal : public TextPattern {
 public:
  explicit Literal(std::string text) : text_(std::move(text)) {}

  std::vector<TextSpan> FindAll(std::string_view text) const override {
    std::vector<TextSpan> spans;
    if (text_.empty()) return spans;
    for (size_t at = text.find(text_); at != std::string_view::npos;
         at = text.find(text_, at + text_.size())) {
      spans.push_back({at, at + text_.size()});
    }
    return spans;
  }

 private:
  std::string text_;
};

class RegexPattern : public TextPattern {
 public:
  RegexPattern(const std::string& pattern, const std::string& place) : regex_(pattern, place) {}
  std::vector<TextSpan> FindAll(std::string_view text) const override {
    return regex_.FindAll(text);
  }

 private:
  Regex regex_;
};

}  // namespace

std::string TextPattern::Replace(std::string_view text, std::string_view content) const {
  std::string replaced;
  size_t done = 0;
  for (const TextSpan& span : FindAll(text)) {
    replaced.append(text.substr(done, span.begin - done)).append(content);
    done = span.end;
  }
  replaced.append(text.substr(done));
  return replaced;
}

std::unique_ptr<TextPattern> ParseTextPattern(const Json& json, const std::string& place,
                                              EmptyLiteral empty) {
  const JsonFields fields(json, place);
  if (fields.Find("Regex") != nullptr) {
    return std::make_unique<RegexPattern>(fields.String("Regex"), place);
  }
  std::string literal = fields.String("String");
  if (literal.empty() && empty == EmptyLiteral::kEverywhere) {
    return std::make_unique<RegexPattern>("", place);
  }
  return std::make_unique<Literal>(std::move(literal));
}

}  // namespace lazytrain
