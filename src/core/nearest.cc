#include "core/nearest.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>

namespace lazytrain {
namespace {

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

}  // namespace

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row.back();
}

std::vector<std::string> NearestNames(std::string_view name, std::span<const std::string> names,
                                      size_t count) {
  std::vector<std::pair<size_t, std::string>> ranked;
  ranked.reserve(names.size());
  for (const std::string& candidate : names) {
    ranked.emplace_back(EditDistance(LowerCase(name), LowerCase(candidate)), candidate);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> nearest;
  for (auto& [distance, candidate] : ranked) {
    if (nearest.size() == count) break;
    nearest.push_back(std::move(candidate));
  }
  return nearest;
}

}  // namespace lazytrain
