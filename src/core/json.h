// JSON files with errors that name file and line.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/file.h"

namespace lazytrain {

// Keeps the order of keys, as files that people read and diff should.
using Json = nlohmann::ordered_json;

// Throws Error "<place>:<line>: malformed JSON: ...". Nesting deeper than 200 levels is refused.
Json ParseJson(std::string_view text, std::string_view place, int64_t first_line = 1);
Json ReadJsonFile(const Path& path, FileLayer& layer = SystemFiles());

}  // namespace lazytrain
