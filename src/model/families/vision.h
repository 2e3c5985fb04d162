// Vision towers (Dosovitskiy et al. 2021) as parts of models that read images; planned, not run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/families/decoder.h"

namespace lazytrain {

// A transformer over the patches of an image. Empty names: the tower has no such part.
struct VisionSpec {
  std::string prefix;  // before every name
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  Shape patch_shape;      // of the stored projection's input: {3, 14, 14}
  int64_t positions = 0;  // learned positions
  int64_t span = 0;       // patches that attend to each other
  std::string patch = "embeddings.patch_embedding";
  bool patch_bias = true;
  std::string position = "embeddings.position_embedding.weight";
  Shape position_shape;  // empty: {positions, hidden}
  std::string class_token;
  Shape class_shape;  // empty: {hidden}
  std::string pre_norm;
  std::string post_norm;
  std::string layer_prefix = "encoder.layers.";
  std::string norm1 = "layer_norm1", norm2 = "layer_norm2";
  std::vector<std::string> qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
  std::string o = "self_attn.out_proj";
  std::vector<std::string> fc1 = {"mlp.fc1"};  // two: gate and up
  std::string fc2 = "mlp.fc2";
  std::string scale1, scale2;  // factors on what attention and MLP add
  std::string activation = "gelu";
  bool rms_norm = false;
};

// Appends the tower; its last segment's "out" is [patches, hidden].
void AddVisionTower(ModelBuilder& model, const VisionSpec& spec);

// What one row an image token of `tokens_from` patches each: reshapes [patches, cols] to
// [image tokens, cols * patches a token] (a view of the same bytes).
int AddPatchMerge(SegmentBuilder& segment, const std::string& value, int x, int64_t patches);

// Puts image tokens in their rows between text tokens, behind the embedding.
void AddImageTokens(ModelBuilder& model, int64_t hidden, const ValueSource& images);

// The tower of Qwen3-VL and Qwen3.5 with its projectors: `tokens` go in with the text, `deep` are
// added to the outputs of the first layers.
struct QwenVision {
  ValueSource tokens;
  std::vector<ValueSource> deep;
};
QwenVision AddQwenVision(ModelBuilder& model, const HubConfig& config, const std::string& prefix);

}  // namespace lazytrain
