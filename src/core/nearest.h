// The name somebody probably meant.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lazytrain {

// Levenshtein distance: insertions, deletions and replacements of bytes that turn `a` into `b`.
size_t EditDistance(std::string_view a, std::string_view b);

// At most `count` of the names, nearest first by edit distance without regard to (ASCII) case, then
// in alphabetical order.
std::vector<std::string> NearestNames(std::string_view name, std::span<const std::string> names,
                                      size_t count);

}  // namespace lazytrain
