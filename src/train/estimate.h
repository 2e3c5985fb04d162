// Whether a model can be trained on a machine that is not there: by its config.json, budgets and
// rates alone. The command `lazytrain estimate`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"

namespace lazytrain {

// GB are 1e9 bytes. Rates of 0 were not given: those of the profile, or guesses that are told.
struct EstimateOptions {
  std::string model;  // folder with a config.json
  double gpu_memory_gb = 0;
  double cpu_memory_gb = 0;
  double h2d_gbps = 0;
  double d2h_gbps = 0;
  double host_gbps = 0;
  double gemm_tflops = 0;
  double nvme_gb = 0;       // told, not counted with: that tier is not executed yet
  std::string profile;      // file from `lazytrain profile`; empty: none
  int64_t batch = 0;        // examples a step; 0: looked for
  int64_t sequence = 1024;  // tokens an example
  double seconds = 8;       // for the planner
};

// A step that was planned, compiled and simulated.
struct EstimatedStep {
  int64_t batch = 0;
  int64_t passes = 0;
  int64_t micro_batches = 0;
  int64_t micro_batch_tokens = 0;
  double seconds = 0;
  double bound_seconds = 0;      // no schedule is faster, by the planner's program
  int64_t device_bytes = 0;      // without the driver's
  int64_t activation_bytes = 0;  // on the host
  double tokens_per_second = 0;
};

// What a batch can reach at best: the bound of its linear program.
struct BatchBound {
  int64_t batch = 0;
  bool one_pass = false;  // fits in one pass
  double seconds = 0;     // 0: does not fit
  double tokens_per_second = 0;
};

// The most examples a step that memory allows.
struct LargestBatch {
  int64_t batch = 0;    // one that the planner found a schedule for
  int64_t at_most = 0;  // no larger one has any
  bool bounded =
      true;  // false: memory does not grow with it, or only beyond what programs can list
  // What a larger one lacks, and bytes of it for twice as many; empty: of neither alone.
  std::vector<std::pair<std::string, int64_t>> blocked_by;
};

struct Estimate {
  std::string model;
  int64_t parameters = 0;
  int64_t sequence = 0;
  double device_cap = 0;    // bytes
  double driver_bytes = 0;  // of them
  double host_budget = 0;
  int64_t store_bytes = 0;            // weights, gradients, optimizer states on the host
  int64_t host_activation_bytes = 0;  // what the budget leaves for activations
  std::vector<std::string> assumptions;
  std::optional<EstimatedStep> step;  // absent: nothing fits
  // Where nothing fits: what is short, and changes each of which alone would do.
  std::string shortage;
  std::vector<std::string> changes;
  // Without a batch.
  std::vector<BatchBound> batches;
  std::optional<LargestBatch> one_pass;
  std::optional<LargestBatch> more_passes;
};

// Throws Error for options and config.json files that cannot be; that something does not fit is an
// answer.
Estimate MakeEstimate(const EstimateOptions& options);

std::string EstimateText(const Estimate& estimate);
Json EstimateToJson(const Estimate& estimate);

}  // namespace lazytrain
