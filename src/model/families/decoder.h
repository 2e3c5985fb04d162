// What decoder families are made of. A family's file puts these blocks together, layer by layer, as
// its architecture reads from top to bottom; what only it does, it builds itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/hub_config.h"
#include "model/model_builder.h"
#include "model/rope_frequencies.h"

namespace lazytrain {

struct Heads {
  int64_t q = 0;
  int64_t kv = 0;
  int64_t dim = 0;

  int64_t q_cols() const { return q * dim; }
  int64_t kv_cols() const { return kv * dim; }
  int64_t cols() const { return (q + 2 * kv) * dim; }
};

// The fields that most decoders' config.json name alike.
struct DecoderSpec {
  std::string architecture;
  int64_t vocab_size = 0;
  int64_t hidden = 0;
  int64_t intermediate = 0;
  int64_t layers = 0;
  Heads heads;
  int64_t max_positions = 0;
  NormSpec norm;
  bool tied_head = false;
};

// Throws Error on impossible values and on an activation other than silu.
DecoderSpec ReadDecoderSpec(const HubConfig& config);

// Throws Error on sizes that no model comes near.
void CheckSizes(const DecoderSpec& spec, const HubConfig& config);

// Throws Error if `key` is neither missing nor one of `supported`.
void RequireOneOf(const HubConfig& config, const std::string& key,
                  const std::vector<std::string>& supported);

// `layer_types` with one of `supported` for each layer; empty if the key is missing.
std::vector<std::string> ReadLayerTypes(const HubConfig& config, int64_t layers,
                                        const std::vector<std::string>& supported = {
                                            "full_attention", "sliding_attention"});

// Sliding windows as Qwen describes them, 0 for none: with `use_sliding_window`, in the layers that
// `layer_types` names or, without it, from `max_window_layers` on.
std::vector<int64_t> ReadQwenWindows(const HubConfig& config, int64_t layers);

// ids -> rows of the table (times `scale`), as the segment "embedding".
void AddEmbedding(ModelBuilder& model, const DecoderSpec& spec,
                  const std::string& tensor = "model.embed_tokens", double scale = 1.0);

// Layer `index`, named "layers.<index>" here and "<prefix><index>." in the hub.
SegmentBuilder MakeLayer(const ModelBuilder& model, int64_t index,
                         const std::string& prefix = "model.layers.");

// Query, key and value projections of x as one product; writes `value`.
int AddQkv(SegmentBuilder& layer, const DecoderSpec& spec, int x, bool bias,
           const std::string& value = "qkv");

// Normalises queries and keys of x (QkNorm) with self_attn.q_norm and k_norm; writes "qkv".
int AddQkNorm(SegmentBuilder& layer, const DecoderSpec& spec, int x, bool per_head);

// Turns queries and keys in place.
void AddRope(SegmentBuilder& layer, const Heads& heads, const RopeFrequencies& rope, int qkv,
             bool interleaved = false);

// Causal attention, scaled by 1 / sqrt(head_dim), without its output projection; `slopes` are those
// of linear biases, one a query head.
int AddAttention(SegmentBuilder& layer, const Heads& heads, int qkv, int64_t window = 0,
                 const std::vector<float>& slopes = {});

// SiLU(gate) * up of the product's two halves; writes "act".
int AddSwiglu(SegmentBuilder& layer, int gate_up);

// swiglu(x gate_up) down + residual, as most families name and bias it; writes "out".
void AddMlp(SegmentBuilder& layer, const DecoderSpec& spec, int x, int residual, bool bias = false);

// Appends the layer; its input is the segment before it.
void AddLayer(ModelBuilder& model, SegmentBuilder layer);

enum class HeadKind {
  kPlain,
  kNormalized,  // rows of the projection are scaled to length 1
  kSoftCapped,  // logits = cap tanh(logits / cap); planned only
};

struct HeadSpec {
  std::string norm = "model.norm";
  std::string projection = "lm_head";
  HeadKind kind = HeadKind::kPlain;
};

// Final norm, output projection (the embedding's table if tied) and what is done with the logits.
ModelGraph FinishDecoder(ModelBuilder& model, const DecoderSpec& spec, const HeadSpec& head = {});

// All layers of a family, for models that hold its decoder beside something else; tensors are named
// "<prefix><index>...".
void AddLlamaLayers(ModelBuilder& model, const DecoderSpec& spec, const HubConfig& config,
                    const std::string& prefix);
void AddQwen2Layers(ModelBuilder& model, const DecoderSpec& spec, const HubConfig& config,
                    const std::string& prefix);
void AddQwen3Layer(ModelBuilder& model, const DecoderSpec& spec, const HubConfig& config,
                   const std::string& prefix, int64_t index);
void AddInternLm2Layers(ModelBuilder& model, const DecoderSpec& spec, const HubConfig& config,
                        const std::string& prefix);

}  // namespace lazytrain
