// The optimizer's settings and what becomes of them each step.
#pragma once

#include <cstdint>

#include "ops/unit_kernels.h"

namespace lazytrain {

struct AdamWSettings {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;  // matrices only
};

// The scalars of step number `step` (from 1), rounded once, for every unit wherever it is updated.
AdamWScalars ScalarsOf(const AdamWSettings& settings, double learning_rate, int64_t step,
                       double clip_factor);

// What gradients of norm `norm` are multiplied by so that it does not pass `max_norm`; as torch's
// clip_grad_norm_: min(1, max_norm / (norm + 1e-6)). max_norm <= 0 clips nothing.
double ClipFactor(double norm, double max_norm);

}  // namespace lazytrain
