// Training steps on random weights and tokens: the command `lazytrain bench`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"
#include "train/config/config.h"

namespace lazytrain {

struct BenchOptions {
  std::vector<std::string> schedules;  // memory.schedule, one run each on the same weights
  int64_t steps = 10;                  // of the first
  int64_t baseline_steps = 5;          // of the others
  int64_t warmup = 2;                  // steps before, not counted
};

// Needs only config.json at model.name. Prints a table for each schedule; returns the first as
// JSON:
// {"tokens_per_second", "tflops", "step_seconds" (median), "predicted_step_seconds", "steps",
//  "hardware" (where the numbers of the prediction came from), "schedule", "passes" (micro-batches
//  of each), "micro_batch_tokens", "device_bytes" (planned, with what the driver takes),
//  "device_bytes_arena", "device_bytes_used" (of the arena), "device_bytes_driver" (the most that
//  the process held; 0 without a driver), "host_bytes", "store_bytes", "arena_over_lower_bound",
//  "lanes", "ops" (both of the step whose time is closest to the median):
//  [{"op", "direction", "seconds", "predicted_seconds", "share", "flops_share"}], "baselines": the
//  others}
Json RunBench(const Config& config, const BenchOptions& options);

}  // namespace lazytrain
