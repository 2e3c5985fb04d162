// What one key alone cannot say: alternatives and contradictions.
#pragma once

#include <string_view>

#include "train/config/config.h"

namespace lazytrain {

// Of batch_size and batch_tokens, num_steps and num_epochs, warmup_ratio and warmup_steps one
// decides: the other becomes 0. Throws Error when both are given.
void ResolveAlternatives(Config* config);

// Throws Error for settings that contradict each other.
void CheckTogether(const Config& config);

// Throws Error "<file>: ..." for what a training run cannot do without.
void CheckComplete(const Config& config, std::string_view file, ConfigUse use);

}  // namespace lazytrain
