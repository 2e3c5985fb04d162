#include "core/json.h"

#include <algorithm>

#include "core/error.h"

namespace lazytrain {
namespace {

constexpr int kMaxDepth = 200;

int64_t LineOf(std::string_view text, size_t offset) {
  return std::count(text.begin(),
                    text.begin() + static_cast<int64_t>(std::min(offset, text.size())), '\n');
}

// nlohmann's parser builds nested values on the heap but frees them recursively; a file of nothing
// but brackets would take the stack with it.
void CheckDepth(std::string_view text, std::string_view place, int64_t first_line) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) {
        throw RunError("{}:{}: malformed JSON: nested more than {} levels deep", place,
                       first_line + LineOf(text, i), kMaxDepth);
      }
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

}  // namespace

Json ParseJson(std::string_view text, std::string_view place, int64_t first_line) {
  CheckDepth(text, place, first_line);
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    // The library's text begins with "[json.exception.parse_error.101] parse error at line ...: ".
    std::string_view what = error.what();
    if (const size_t colon = what.find(": "); colon != std::string_view::npos) {
      what.remove_prefix(colon + 2);
    }
    const size_t offset = error.byte > 0 ? error.byte - 1 : 0;
    throw RunError("{}:{}: malformed JSON: {}", place, first_line + LineOf(text, offset), what);
  } catch (const Json::out_of_range& error) {
    // "[json.exception.out_of_range.406] number overflow parsing '1e999'", without its place.
    std::string_view number = error.what();
    number = number.substr(std::min(number.find('\'') + 1, number.size()));
    number = number.substr(0, number.find('\''));
    throw RunError("{}:{}: malformed JSON: the number {} is too large", place,
                   first_line + LineOf(text, text.find(number)), number);
  }
}

Json ReadJsonFile(const Path& path, FileLayer& layer) {
  return ParseJson(ReadFile(path, layer), path.string());
}

}  // namespace lazytrain
