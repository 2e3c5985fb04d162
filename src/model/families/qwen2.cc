// Qwen2 and Qwen2.5 (Yang et al. 2024): biases on query, key and value; a sliding window in the
// upper layers where the configuration turns it on.
#include "core/error.h"
#include "model/families/decoder.h"

namespace lazytrain {
namespace {

std::vector<int64_t> ReadWindows(const HubConfig& config, int64_t layers) {
  std::vector<int64_t> windows(static_cast<size_t>(layers), 0);
  if (!config.BoolOr("use_sliding_window", false) || !config.Has("sliding_window")) return windows;
  const int64_t window = config.PositiveInt("sliding_window");
  if (config.Has("layer_types")) {
    const Json& types = config.json().at("layer_types");
    if (!types.is_array() || static_cast<int64_t>(types.size()) != layers) {
      throw RunError("{}: 'layer_types' has to list one type for each of {} layers", config.place(),
                     layers);
    }
    for (int64_t i = 0; i < layers; ++i) {
      if (types[static_cast<size_t>(i)] == "sliding_attention") windows[i] = window;
    }
    return windows;
  }
  for (int64_t i = config.PositiveIntOr("max_window_layers", 28); i < layers; ++i) {
    windows[i] = window;
  }
  return windows;
}

}  // namespace

ModelGraph BuildQwen2(const HubConfig& config, const GraphOptions& options) {
  DecoderSpec spec = ReadDecoderSpec(config);
  spec.qkv_bias = true;
  spec.windows = ReadWindows(config, spec.layers);
  return BuildDecoder(spec, options);
}

}  // namespace lazytrain
