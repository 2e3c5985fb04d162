// Training steps on random weights and tokens: the command `lazytrain bench`.
#pragma once

#include "core/json.h"
#include "train/config/config.h"

namespace lazytrain {

struct BenchOptions {
  int64_t steps = 10;
  int64_t warmup = 2;  // steps before, not counted
};

// Needs only config.json at model.name. Prints a table; returns the same as JSON:
// {"tokens_per_second", "tflops", "step_seconds" (median), "predicted_step_seconds", "steps",
//  "hardware" (where the numbers of the prediction came from), "schedule", "device_bytes",
//  "device_bytes_used", "host_bytes", "store_bytes", "arena_over_lower_bound", "lanes", "ops":
//  [{"op", "direction", "seconds", "share", "flops_share"}]}
Json RunBench(const Config& config, const BenchOptions& options);

}  // namespace lazytrain
