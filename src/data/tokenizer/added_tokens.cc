#include "data/tokenizer/added_tokens.h"

#include <algorithm>

#include "data/tokenizer/json_fields.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"

namespace lazytrain {
namespace {

bool EndsWithWord(std::string_view text) {
  if (text.empty()) return false;
  size_t last = PreviousCodePoint(text, text.size());
  return IsWordCharacter(NextCodePoint(text, last));
}

bool BeginsWithWord(std::string_view text) {
  size_t first = 0;
  return !text.empty() && IsWordCharacter(NextCodePoint(text, first));
}

// Where the white space at the end of the text begins.
size_t TrailingSpace(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0) {
    const size_t previous = PreviousCodePoint(text, begin);
    size_t position = previous;
    if (!IsWhiteSpace(NextCodePoint(text, position))) break;
    begin = previous;
  }
  return begin;
}

// Where the white space at the front of the text ends.
size_t LeadingSpace(std::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    size_t position = end;
    if (!IsWhiteSpace(NextCodePoint(text, position))) break;
    end = position;
  }
  return end;
}

}  // namespace

AddedToken ParseAddedToken(const Json& json, const std::string& place) {
  const JsonFields fields(json, place);
  AddedToken token;
  const int64_t id = fields.Integer("id");
  if (id < 0 || id > INT32_MAX) fields.Refuse("id", "between 0 and 2147483647");
  token.id = static_cast<int32_t>(id);
  token.content = fields.String("content");
  token.single_word = fields.Bool("single_word");
  token.lstrip = fields.Bool("lstrip");
  token.rstrip = fields.Bool("rstrip");
  token.normalized = fields.Bool("normalized");
  token.special = fields.Bool("special");
  return token;
}

void TokenMatcher::Add(std::string_view pattern, const AddedToken& token) {
  trie_.Add(pattern, static_cast<int32_t>(tokens_.size()));
  tokens_.push_back(token);
}

std::vector<TextPart> TokenMatcher::Split(std::string_view text) const {
  std::vector<TextPart> parts;
  size_t done = 0;  // everything before is in `parts`
  for (size_t i = 0; i < text.size();) {
    const ByteTrie::Found found = trie_.Longest(text.substr(i));
    if (found.length == 0) {
      ++i;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(found.value)];
    size_t begin = i;
    size_t end = i + found.length;
    i = end;
    if (token.single_word &&
        (EndsWithWord(text.substr(0, begin)) || BeginsWithWord(text.substr(end)))) {
      continue;
    }
    // White space that the token before took already stays with that one.
    if (token.lstrip) begin = std::max(TrailingSpace(text.substr(0, begin)), done);
    if (token.rstrip) end += LeadingSpace(text.substr(end));
    if (done < begin) parts.push_back({text.substr(done, begin - done), std::nullopt});
    // A token of white space may lie wholly inside what the one before took.
    if (begin < end) parts.push_back({text.substr(begin, end - begin), token.id});
    done = end;
  }
  if (done < text.size()) parts.push_back({text.substr(done), std::nullopt});
  return parts;
}

}  // namespace lazytrain
