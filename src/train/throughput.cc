#include "train/throughput.h"

#include <algorithm>

namespace lazytrain {

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double TrainingTflops(int64_t parameters, double tokens_per_second) {
  return 6.0 * static_cast<double>(parameters) * tokens_per_second / 1e12;
}

}  // namespace lazytrain
