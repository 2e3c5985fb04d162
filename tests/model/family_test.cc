// What families make of config.json: both spellings, defaults, and what they refuse.
#include "model/family.h"

#include <gmock/gmock.h>

#include <map>
#include <string>

#include "core/error.h"
#include "ops/attention.h"
#include "ops/rope.h"

namespace lazytrain {
namespace {

using ::testing::HasSubstr;

Json Small(const std::string& type) {
  return {{"model_type", type},       {"vocab_size", 96},
          {"hidden_size", 32},        {"intermediate_size", 48},
          {"num_hidden_layers", 4},   {"num_attention_heads", 4},
          {"num_key_value_heads", 2}, {"max_position_embeddings", 64}};
}

ModelGraph Build(const Json& json) {
  GraphOptions options;
  options.dtype = DType::kF32;
  return BuildModelGraph(HubConfig(json, "config.json"), options);
}

std::string Message(const Json& json) {
  try {
    Build(json);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// The op of a type in a segment, or null.
template <typename T>
const T* FindOp(const Segment& segment) {
  for (const OpNode& node : segment.graph->nodes) {
    if (const auto* op = dynamic_cast<const T*>(node.op.get())) return op;
  }
  return nullptr;
}

std::vector<int64_t> Windows(const ModelGraph& model) {
  std::vector<int64_t> windows;
  for (const Segment& segment : model.loss) {
    if (const auto* op = FindOp<Attention>(segment)) windows.push_back(op->window);
  }
  return windows;
}

std::map<std::string, Shape> Tensors(const ModelGraph& model) {
  std::map<std::string, Shape> tensors;
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      for (const HubTensor& tensor : parameter.tensors) tensors[tensor.name] = tensor.shape;
    }
  }
  return tensors;
}

TEST(Family, BothSpellingsAreOneModel) {
  Json old = Small("llama");
  old["rope_theta"] = 5e5;
  old["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  old["torch_dtype"] = "bfloat16";
  Json current = Small("llama");
  current["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 5e5}};
  current["dtype"] = "bfloat16";
  EXPECT_EQ(Build(old).ShapeHash(), Build(current).ShapeHash());
  current["rope_parameters"]["factor"] = 4.0;
  EXPECT_NE(Build(old).ShapeHash(), Build(current).ShapeHash());
}

TEST(Family, Olmo3TakesBothSpellingsOfRope) {
  Json old = Small("olmo3");
  old["sliding_window"] = 8;
  old["rope_theta"] = 5e5;
  old["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}};
  Json current = Small("olmo3");
  current["sliding_window"] = 8;
  current["rope_parameters"] = {
      {"full_attention", {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 5e5}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 5e5}}}};
  EXPECT_EQ(Build(old).ShapeHash(), Build(current).ShapeHash());
  EXPECT_EQ(Windows(Build(old)), (std::vector<int64_t>{8, 8, 8, 0}));
  const ModelGraph model = Build(old);
  EXPECT_FLOAT_EQ(FindOp<Rope>(model.loss[1])->inverse_frequencies[0], 1.0f);
  EXPECT_FLOAT_EQ(FindOp<Rope>(model.loss[4])->inverse_frequencies[0], 0.5f);
}

TEST(Family, Windows) {
  Json mistral = Small("mistral");
  EXPECT_EQ(Windows(Build(mistral)), (std::vector<int64_t>(4, 4096)));
  mistral["sliding_window"] = nullptr;
  EXPECT_EQ(Windows(Build(mistral)), (std::vector<int64_t>(4, 0)));

  for (const char* type : {"qwen2", "qwen3"}) {
    Json qwen = Small(type);
    qwen["sliding_window"] = 16;
    qwen["max_window_layers"] = 3;
    EXPECT_EQ(Windows(Build(qwen)), (std::vector<int64_t>(4, 0)));
    qwen["use_sliding_window"] = true;
    EXPECT_EQ(Windows(Build(qwen)), (std::vector<int64_t>{0, 0, 0, 16}));
    qwen["max_window_layers"] = 0;
    EXPECT_EQ(Windows(Build(qwen)), (std::vector<int64_t>(4, 16)));
    qwen["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention",
                           "full_attention"};
    EXPECT_EQ(Windows(Build(qwen)), (std::vector<int64_t>{16, 0, 16, 0}));
    qwen["layer_types"] = {"full_attention"};
    EXPECT_THAT(Message(qwen), HasSubstr("'layer_types'"));
  }
}

TEST(Family, SmolLm3LeavesRopeOut) {
  const auto rotary = [](const Json& json) {
    std::vector<bool> layers;
    const ModelGraph model = Build(json);
    for (size_t s = 1; s + 1 < model.loss.size(); ++s) {
      layers.push_back(FindOp<Rope>(model.loss[s]) != nullptr);
    }
    return layers;
  };
  Json json = Small("smollm3");
  EXPECT_EQ(rotary(json), (std::vector<bool>{true, true, true, false}));
  json["no_rope_layer_interval"] = 2;
  EXPECT_EQ(rotary(json), (std::vector<bool>{true, false, true, false}));
  json["no_rope_layers"] = {0, 1, 1, 1};
  EXPECT_EQ(rotary(json), (std::vector<bool>{false, true, true, true}));
  EXPECT_FALSE(Tensors(Build(json)).contains("lm_head.weight"));  // tied unless the file says no
  json["no_rope_layers"] = {0, 2, 1, 1};
  EXPECT_THAT(Message(json), HasSubstr("'no_rope_layers'"));
}

TEST(Family, SmolLm3Windows) {
  Json json = Small("smollm3");
  json["sliding_window"] = 16;
  EXPECT_EQ(Windows(Build(json)), (std::vector<int64_t>(4, 0)));
  json["use_sliding_window"] = true;
  EXPECT_EQ(Windows(Build(json)), (std::vector<int64_t>{0, 0, 0, 16}));
  // Listed types need no switch.
  json["use_sliding_window"] = false;
  json["layer_types"] = {"sliding_attention", "full_attention", "full_attention", "full_attention"};
  EXPECT_EQ(Windows(Build(json)), (std::vector<int64_t>{16, 0, 0, 0}));
}

TEST(Family, BaichuanWithoutPositionsHasLinearBiases) {
  Json json = Small("baichuan");
  json["num_attention_heads"] = 6;
  json["num_key_value_heads"] = 6;
  json["hidden_size"] = 48;
  const ModelGraph rotary = Build(json);
  EXPECT_NE(FindOp<Rope>(rotary.loss[1]), nullptr);
  EXPECT_TRUE(FindOp<Attention>(rotary.loss[1])->slopes.empty());
  json.erase("max_position_embeddings");
  json["model_max_length"] = 80;
  const ModelGraph biased = Build(json);
  EXPECT_EQ(FindOp<Rope>(biased.loss[1]), nullptr);
  EXPECT_EQ(biased.max_positions, 80);
  // Four heads' series 2^-2, 2^-4, ..., then the first and third of eight heads' 2^-1, 2^-2, ...
  EXPECT_EQ(FindOp<Attention>(biased.loss[1])->slopes,
            (std::vector<float>{0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.5f, 0.125f}));
}

TEST(Family, ContextWhereTheFileLeavesItOut) {
  const std::map<std::string, int64_t> contexts = {
      {"llama", 2048}, {"mistral", 131072}, {"qwen2", 32768},   {"qwen3", 32768},
      {"phi3", 4096},  {"glm", 131072},     {"glm4", 131072},   {"olmo2", 2048},
      {"olmo3", 2048}, {"smollm3", 32768},  {"internlm2", 2048}};
  for (const auto& [type, context] : contexts) {
    Json json = Small(type);
    json.erase("max_position_embeddings");
    EXPECT_EQ(Build(json).max_positions, context) << type;
    json["max_position_embeddings"] = 100;
    EXPECT_EQ(Build(json).max_positions, 100) << type;
    json["rope_scaling"] = {{"type", "dynamic"}, {"factor", 1.5}};
    EXPECT_EQ(Build(json).max_positions, 150) << type;
  }
}

TEST(Family, BiasesWhereTheConfigurationWantsThem) {
  const auto has = [](const Json& json, const std::string& name) {
    return Tensors(Build(json)).contains("model.layers.0." + name + ".bias");
  };
  for (const char* type : {"llama", "qwen3", "olmo2", "olmo3", "smollm3"}) {
    Json json = Small(type);
    EXPECT_FALSE(has(json, "self_attn.q_proj")) << type;
    json["attention_bias"] = true;
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
      EXPECT_TRUE(has(json, std::string("self_attn.") + name)) << type << " " << name;
    }
    json["mlp_bias"] = true;
    const std::string name = type;
    EXPECT_EQ(has(json, "mlp.down_proj"), name == "llama" || name == "smollm3") << type;
  }
  for (const char* type : {"glm", "glm4"}) {
    Json json = Small(type);
    EXPECT_TRUE(has(json, "self_attn.q_proj")) << type;
    EXPECT_FALSE(has(json, "self_attn.o_proj")) << type;
    json["attention_bias"] = false;
    EXPECT_FALSE(has(json, "self_attn.q_proj")) << type;
  }
  EXPECT_TRUE(has(Small("qwen2"), "self_attn.k_proj"));
  EXPECT_FALSE(has(Small("qwen2"), "self_attn.o_proj"));
}

TEST(Family, HeadSizes) {
  Json json = Small("llama");
  EXPECT_EQ(Tensors(Build(json)).at("model.layers.0.self_attn.q_proj.weight"), (Shape{32, 32}));
  json["head_dim"] = 16;
  EXPECT_EQ(Tensors(Build(json)).at("model.layers.0.self_attn.q_proj.weight"), (Shape{64, 32}));
  EXPECT_EQ(Tensors(Build(json)).at("model.layers.0.self_attn.o_proj.weight"), (Shape{32, 64}));
  json["head_dim"] = nullptr;
  json["num_key_value_heads"] = nullptr;
  EXPECT_EQ(Tensors(Build(json)).at("model.layers.0.self_attn.k_proj.weight"), (Shape{32, 32}));
  // Qwen3's heads have 128 channels unless the file says otherwise.
  EXPECT_EQ(Tensors(Build(Small("qwen3"))).at("model.layers.0.self_attn.q_norm.weight"),
            (Shape{128}));
  EXPECT_EQ(Tensors(Build(Small("olmo2"))).at("model.layers.0.self_attn.k_norm.weight"),
            (Shape{16}));
}

TEST(Family, Phi3CallsLongRopeByOldNames) {
  Json json = Small("phi3");
  json["original_max_position_embeddings"] = 16;
  for (const char* type : {"longrope", "su", "yarn"}) {
    json["rope_scaling"] = {
        {"type", type}, {"short_factor", {1, 1, 1, 1}}, {"long_factor", {2, 2, 2, 2}}};
    const ModelGraph model = Build(json);
    const auto* rope = FindOp<Rope>(model.loss[1]);
    ASSERT_NE(rope, nullptr);
    EXPECT_EQ(rope->long_beyond, 16) << type;
    EXPECT_FLOAT_EQ(rope->long_inverse_frequencies[0], 0.5f) << type;
  }
}

TEST(Family, LayersOfOneShapeShareAGraph) {
  const ModelGraph model = Build(Small("qwen3"));
  EXPECT_EQ(model.loss[1].graph, model.loss[4].graph);
  EXPECT_NE(model.loss[1].units, model.loss[4].units);
  Json olmo = Small("olmo3");
  const ModelGraph mixed = Build(olmo);
  EXPECT_EQ(mixed.loss[1].graph, mixed.loss[3].graph);
  EXPECT_NE(mixed.loss[1].graph, mixed.loss[4].graph);
}

TEST(Family, NamesWhatItRefuses) {
  EXPECT_THAT(Message({{"model_type", "abacus"}}), HasSubstr("'abacus'"));
  EXPECT_THAT(Message(Json::object()), HasSubstr("'model_type' is missing"));
  for (const char* type : {"llama", "qwen2", "qwen3", "mistral", "phi3", "glm", "glm4", "olmo2",
                           "olmo3", "smollm3", "internlm2", "baichuan"}) {
    Json json = Small(type);
    json["head_dim"] = 8;
    EXPECT_EQ(Message(json), "") << type;
    json["hidden_act"] = "relu";
    EXPECT_THAT(Message(json), HasSubstr("'hidden_act' is 'relu'")) << type;
    json["hidden_act"] = "silu";
    json["num_attention_heads"] = 3;
    EXPECT_THAT(Message(json), HasSubstr("'num_key_value_heads'")) << type;
    json.erase("hidden_size");
    EXPECT_THAT(Message(json), HasSubstr("'hidden_size' is missing")) << type;
  }
}

TEST(Family, RefusesSizesThatCannotBe) {
  Json llama = Small("llama");
  llama["num_hidden_layers"] = 100000;
  EXPECT_THAT(Message(llama), HasSubstr("100000 layers"));
  Json glm = {{"model_type", "chatglm"}, {"padded_vocab_size", 96},  {"hidden_size", 32},
              {"ffn_hidden_size", 48},   {"num_layers", 2},          {"num_attention_heads", 4},
              {"kv_channels", 8},        {"layernorm_epsilon", 1e-5}};
  EXPECT_EQ(Message(glm), "");
  glm["ffn_hidden_size"] = 2147483647;
  glm["hidden_size"] = 2147483644;
  EXPECT_THAT(Message(glm), HasSubstr("parameters"));
}

TEST(Family, EveryOneIsLabelled) {
  std::map<std::string_view, Reference> labels;
  for (const Family& family : Families()) {
    EXPECT_TRUE(labels.emplace(family.model_type, family.reference).second) << family.model_type;
  }
  EXPECT_EQ(labels.at("llama"), Reference::kTransformers);
  EXPECT_EQ(labels.at("internlm2"), Reference::kByHand);
  EXPECT_EQ(labels.at("mixtral"), Reference::kPlanOnly);
}

}  // namespace
}  // namespace lazytrain
