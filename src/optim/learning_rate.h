// Learning-rate schedules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lazytrain {

struct LearningRateSettings {
  double peak = 1e-5;
  std::string scheduler = "cosine";  // one of LearningRateSchedulers()
  int64_t warmup_steps = 0;
  int64_t total_steps = 1;
};

// "constant", "linear", "cosine", "wsd".
std::vector<std::string_view> LearningRateSchedulers();

// The rate of step `step` (from 0). Warmup rises linearly from 0 (step s of w has peak * s / w, as
// in transformers), then with p the share of the remaining steps that is over:
//   constant: peak                    linear: peak (1 - p)
//   cosine: peak (1 + cos(pi p)) / 2  wsd: peak, and over the last tenth of all steps linearly to 0
//                                     (warmup, stable, decay: Hu et al. 2024)
// Throws Error for an unknown scheduler.
double LearningRateAt(const LearningRateSettings& settings, int64_t step);

}  // namespace lazytrain
