// Whether a short list holds an item.
#pragma once

#include <algorithm>
#include <vector>

namespace lazytrain {

template <typename T>
bool Contains(const std::vector<T>& items, const T& item) {
  return std::find(items.begin(), items.end(), item) != items.end();
}

}  // namespace lazytrain
