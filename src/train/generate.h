// Text from a model: the command `lazytrain generate`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lazytrain {

struct GenerateOptions {
  std::string model;
  std::string prompt;
  std::string device = "auto";
  int64_t max_new_tokens = 128;
  double device_memory_gb = 0;  // 0: no cap
};

struct Generated {
  std::vector<int32_t> prompt_ids;
  std::vector<int32_t> new_ids;  // without the end token
  std::string text;              // prompt and continuation, as the tokenizer writes them
};

// Greedy. The model's start token stands first exactly once. Layers stream through the device, so a
// model larger than it works. Stops at an end token, at max_new_tokens, or where the context is
// full.
Generated Generate(const GenerateOptions& options);

}  // namespace lazytrain
