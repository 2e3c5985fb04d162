#include "data/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/error.h"
#include "data/tokenizer/utf8.h"

namespace lazytrain {
namespace {

std::string MessageOf(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

template <typename T, void (*Free)(T*)>
struct Freer {
  void operator()(T* object) const { Free(object); }
};
using CompileContext = std::unique_ptr<pcre2_compile_context,
                                       Freer<pcre2_compile_context, pcre2_compile_context_free>>;
using Code = std::unique_ptr<pcre2_code, Freer<pcre2_code, pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Freer<pcre2_match_data, pcre2_match_data_free>>;

}  // namespace

struct Regex::Compiled {
  std::string pattern;  // as it was given
  std::string place;
  Code code;
};

Regex::Regex(const std::string& pattern, const std::string& place)
    : compiled_(std::make_unique<Compiled>()) {
  compiled_->pattern = pattern;
  compiled_->place = place;
  const std::string translated = TranslateRegex(pattern, place);
  const CompileContext context(pcre2_compile_context_create(nullptr));
  if (context == nullptr) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE;
  int error = 0;
  size_t offset = 0;
  compiled_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()),
                                      translated.size(), kOptions, &error, &offset, context.get()));
  if (compiled_->code == nullptr) {
    throw RunError("{}: the regular expression '{}' cannot be used: {}; write it without", place,
                   pattern, MessageOf(error));
  }
  // Without the just-in-time compiler (no memory for it, a hardened system) the interpreter
  // matches.
  pcre2_jit_compile(compiled_->code.get(), PCRE2_JIT_COMPLETE);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

std::vector<TextSpan> Regex::FindAll(std::string_view text) const {
  const MatchData data(pcre2_match_data_create_from_pattern(compiled_->code.get(), nullptr));
  if (data == nullptr) throw std::bad_alloc();
  const size_t* offsets = pcre2_get_ovector_pointer(data.get());
  const auto match = [&](size_t from, uint32_t options) {
    return pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                       text.size(), from, PCRE2_NO_UTF_CHECK | options, data.get(), nullptr);
  };
  std::vector<TextSpan> spans;
  if (text.empty()) return spans;  // as in the reference, even for what matches an empty text
  size_t from = 0;
  while (from <= text.size()) {
    int result = match(from, 0);
    // The interpreter's stack is on the heap and larger.
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(from, PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) {
      throw RunError(
          "{}: the regular expression '{}' fails on a text of {} bytes: {}; use a "
          "simpler one or shorter texts",
          compiled_->place, compiled_->pattern, text.size(), MessageOf(result));
    }
    const TextSpan span{offsets[0], offsets[1]};
    if (span.begin == span.end && !spans.empty() && spans.back().end == span.end) {
      // Not again where the last match ended.
      from = span.end < text.size() ? span.end + Utf8Length(text[span.end]) : span.end + 1;
      continue;
    }
    // \K in a lookahead may begin a match behind its end.
    if (span.begin > span.end || (!spans.empty() && span.begin < spans.back().end)) break;
    spans.push_back(span);
    from = span.end;
  }
  return spans;
}

}  // namespace lazytrain
