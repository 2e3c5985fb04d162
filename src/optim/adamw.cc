#include "optim/adamw.h"

#include <algorithm>
#include <cmath>

namespace lazytrain {

AdamWScalars ScalarsOf(const AdamWSettings& settings, double learning_rate, int64_t step,
                       double clip_factor) {
  const auto power = static_cast<double>(step);
  AdamWScalars s;
  s.clip_factor = static_cast<float>(clip_factor);
  s.beta1 = static_cast<float>(settings.beta1);
  s.beta2 = static_cast<float>(settings.beta2);
  s.one_minus_beta1 = static_cast<float>(1.0 - settings.beta1);
  s.one_minus_beta2 = static_cast<float>(1.0 - settings.beta2);
  s.eps = static_cast<float>(settings.eps);
  s.decay = static_cast<float>(1.0 - learning_rate * settings.weight_decay);
  s.step_size = static_cast<float>(learning_rate / (1.0 - std::pow(settings.beta1, power)));
  s.root_bias_correction2 = static_cast<float>(std::sqrt(1.0 - std::pow(settings.beta2, power)));
  return s;
}

double ClipFactor(double norm, double max_norm) {
  if (max_norm <= 0) return 1.0;
  return std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace lazytrain
