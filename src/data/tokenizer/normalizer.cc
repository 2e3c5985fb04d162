#include "data/tokenizer/normalizer.h"

#include <functional>
#include <vector>

#include "data/tokenizer/byte_level.h"
#include "data/tokenizer/json_fields.h"
#include "data/tokenizer/normal_form.h"
#include "data/tokenizer/text_pattern.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"

namespace lazytrain {
namespace {

constexpr const char* kKnown =
    "Sequence, Prepend, Replace, NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, ByteLevel, "
    "Nmt, BertNormalizer";

class FunctionNormalizer : public Normalizer {
 public:
  using Function = std::function<void(std::string&)>;
  explicit FunctionNormalizer(Function function) : function_(std::move(function)) {}
  void Apply(std::string& text) const override { function_(text); }

 private:
  Function function_;
};

class SequenceNormalizer : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<Normalizer>> parts)
      : parts_(std::move(parts)) {}
  void Apply(std::string& text) const override {
    for (const auto& part : parts_) part->Apply(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

// Calls rewrite(code, out) for each code point and takes `out` as the text.
template <typename Rewrite>
void RewriteCodes(std::string& text, Rewrite rewrite) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) rewrite(NextCodePoint(text, i), out);
  text = ToUtf8(out);
}

void StripSpace(std::string& text, bool left, bool right) {
  const auto is_space = [&](size_t at) { return IsWhiteSpace(NextCodePoint(text, at)); };
  size_t begin = 0;
  while (left && begin < text.size() && is_space(begin)) begin += Utf8Length(text[begin]);
  size_t end = text.size();
  while (right && end > begin) {
    const size_t previous = PreviousCodePoint(text, end);
    if (!is_space(previous)) break;
    end = previous;
  }
  text = text.substr(begin, end - begin);
}

void StripAccents(std::string& text) {
  RewriteCodes(text, [](char32_t code, std::u32string& out) {
    if (!IsAccent(code)) out.push_back(code);
  });
}

// The character filter of the Moses normalizer: control characters go, unusual spaces become
// spaces.
void NmtFilter(std::string& text) {
  RewriteCodes(text, [](char32_t code, std::u32string& out) {
    const bool removed = (code >= 0x01 && code <= 0x08) || code == 0x0B ||
                         (code >= 0x0E && code <= 0x1F) || code == 0x7F || code == 0x8F ||
                         code == 0x9F;
    const bool space = code == 0x09 || code == 0x0A || code == 0x0C || code == 0x0D ||
                       code == 0x1680 || (code >= 0x200B && code <= 0x200F) || code == 0x2028 ||
                       code == 0x2029 || code == 0x2581 || code == 0xFEFF || code == 0xFFFD;
    if (!removed) out.push_back(space ? U' ' : code);
  });
}

void BertClean(std::string& text) {
  RewriteCodes(text, [](char32_t code, std::u32string& out) {
    if (code == U'\t' || code == U'\n' || code == U'\r') {
      out.push_back(U' ');
    } else if (code != 0 && code != 0xFFFD && !IsControl(code)) {
      out.push_back(IsWhiteSpace(code) ? U' ' : code);
    }
  });
}

bool IsChinese(char32_t code) {
  return (code >= 0x4E00 && code <= 0x9FFF) || (code >= 0x3400 && code <= 0x4DBF) ||
         (code >= 0x20000 && code <= 0x2A6DF) || (code >= 0x2A700 && code <= 0x2B73F) ||
         (code >= 0x2B740 && code <= 0x2B81F) || (code >= 0x2B920 && code <= 0x2CEAF) ||
         (code >= 0xF900 && code <= 0xFAFF) || (code >= 0x2F800 && code <= 0x2FA1F);
}

void SpaceChinese(std::string& text) {
  RewriteCodes(text, [](char32_t code, std::u32string& out) {
    if (IsChinese(code)) {
      out += {U' ', code, U' '};
    } else {
      out.push_back(code);
    }
  });
}

void Lowercase(std::string& text) { RewriteCodes(text, AppendLowercase); }

FunctionNormalizer::Function MakeBert(const JsonFields& fields) {
  const bool clean = fields.Bool("clean_text");
  const bool chinese = fields.Bool("handle_chinese_chars");
  const bool lowercase = fields.Bool("lowercase");
  const bool strip = fields.Bool("strip_accents", lowercase);
  return [=](std::string& text) {
    if (clean) BertClean(text);
    if (chinese) SpaceChinese(text);
    if (strip) {
      Normalize(NormalForm::kNfd, text);
      // Only marks without width, here.
      RewriteCodes(text, [](char32_t code, std::u32string& out) {
        if (!IsNonspacingMark(code)) out.push_back(code);
      });
    }
    if (lowercase) Lowercase(text);
  };
}

FunctionNormalizer::Function MakeFunction(const JsonFields& fields) {
  const std::string type = fields.Type();
  const auto form = [](NormalForm f) { return [f](std::string& text) { Normalize(f, text); }; };
  if (type == "NFC") return form(NormalForm::kNfc);
  if (type == "NFD") return form(NormalForm::kNfd);
  if (type == "NFKC") return form(NormalForm::kNfkc);
  if (type == "NFKD") return form(NormalForm::kNfkd);
  if (type == "Lowercase") return Lowercase;
  if (type == "StripAccents") return StripAccents;
  if (type == "Nmt") return NmtFilter;
  if (type == "BertNormalizer") return MakeBert(fields);
  if (type == "ByteLevel") return [](std::string& text) { text = BytesToAlphabet(text); };
  if (type == "Prepend") {
    return [prefix = fields.String("prepend")](std::string& text) {
      if (!text.empty()) text.insert(0, prefix);
    };
  }
  if (type == "Replace") {
    std::shared_ptr<TextPattern> pattern =
        ParseTextPattern(fields.Required("pattern"), fields.place() + ": Replace: pattern",
                         EmptyLiteral::kEverywhere);
    return [pattern, content = fields.String("content")](std::string& text) {
      text = pattern->Replace(text, content);
    };
  }
  if (type == "Strip") {
    return [left = fields.Bool("strip_left"), right = fields.Bool("strip_right")](
               std::string& text) { StripSpace(text, left, right); };
  }
  fields.RefuseType("normalizer", kKnown);
}

}  // namespace

std::unique_ptr<Normalizer> ParseNormalizer(const Json& json, const std::string& place) {
  const JsonFields fields(json, place);
  if (fields.Type() != "Sequence") {
    return std::make_unique<FunctionNormalizer>(MakeFunction(fields));
  }
  std::vector<std::unique_ptr<Normalizer>> parts;
  for (const Json& part : fields.Array("normalizers")) {
    parts.push_back(ParseNormalizer(part, place));
  }
  return std::make_unique<SequenceNormalizer>(std::move(parts));
}

}  // namespace lazytrain
