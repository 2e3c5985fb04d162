// Compares this engine with stored reference values: the command `lazytrain verify`.
#pragma once

#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/file.h"
#include "core/json.h"

namespace lazytrain {

struct VerifyOptions {
  Path case_folder;
  std::string device = "auto";
  DType dtype = DType::kF32;
  std::string schedule = "resident";  // resident, interval:K, or a schedule file
};

struct VerifyMeasure {
  std::string name;  // "logits", "loss", ...
  double error = 0;  // the worst
  double tolerance = 0;
  std::string where;                              // the tensor or step of the worst error
  bool ok() const { return error <= tolerance; }  // false for NaN
};

struct VerifyReport {
  // logits: largest difference over the largest magnitude. loss: relative. gradients: the worst
  // tensor's L2 norm of the difference over that of the reference, or over a thousandth of the
  // whole gradient's norm where that is more: some gradients are 0 but for rounding (key biases
  // without rotary embeddings). losses, grad_norms: relative, over the AdamW steps.
  std::vector<VerifyMeasure> measures;
  // A digest of the bits of all losses and gradients of the steps and of the weights after them.
  std::string bits;
  int64_t arena_bytes = 0;
  bool ok() const;
  Json ToJson() const;
};

// Uses several micro-batches, with unused poisoned memory, so that schedules have something to do.
// Throws Error on a case that is malformed or has documents longer than the model's context.
VerifyReport Verify(const VerifyOptions& options);

}  // namespace lazytrain
