// A stored reference: a small model with its inputs, logits, loss, gradients and the losses of a
// few AdamW steps, made by the reference library.
#pragma once

#include <cstdint>
#include <vector>

#include "core/file.h"
#include "model/hub_config.h"
#include "weights/safetensors.h"

namespace lazytrain {

struct GoldenCase {
  // Reads config.json, model.safetensors, io.safetensors, grads.safetensors and expected.json.
  // Throws Error naming what is missing or malformed.
  explicit GoldenCase(const Path& folder);

  Path folder;
  HubConfig config;
  Checkpoint checkpoint;
  SafetensorsFile gradients;  // hub names, float32

  // Documents one after the other; labels unshifted, negative where nothing is trained.
  std::vector<int32_t> input_ids;
  std::vector<int32_t> labels;
  std::vector<int64_t> cu_seqlens;
  std::vector<float> logits;  // [tokens, vocab_size]

  double loss = 0;
  double learning_rate = 0;
  double beta1 = 0;
  double beta2 = 0;
  double eps = 0;
  double weight_decay = 0;
  double max_grad_norm = 0;
  std::vector<double> losses;      // before each step
  std::vector<double> grad_norms;  // before clipping
};

}  // namespace lazytrain
