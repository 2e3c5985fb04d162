// Llama 2 and 3 (Touvron et al. 2023; Grattafiori et al. 2024), and models published in its format.
#include "model/families/decoder.h"

namespace lazytrain {

ModelGraph BuildLlama(const HubConfig& config, const GraphOptions& options) {
  DecoderSpec spec = ReadDecoderSpec(config);
  spec.qkv_bias = config.BoolOr("attention_bias", false);
  spec.o_bias = spec.qkv_bias;
  spec.mlp_bias = config.BoolOr("mlp_bias", false);
  return BuildDecoder(spec, options);
}

}  // namespace lazytrain
