// Families without a reference of their own, against the reference of a family that is the same
// network in another layout: its case, with configuration, weights and gradients laid out anew.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/temp_folder.h"
#include "train/verify.h"
#include "weights/safetensors.h"

namespace lazytrain {
namespace {

struct Tensor {
  Shape shape;
  std::vector<float> values;
};
using Tensors = std::map<std::string, Tensor>;

Tensors ReadTensors(const Path& path) {
  Tensors tensors;
  const SafetensorsFile file(path);
  for (const auto& [name, stored] : file.tensors()) {
    Tensor tensor{stored.shape, std::vector<float>(static_cast<size_t>(stored.bytes) / 4)};
    std::memcpy(tensor.values.data(), stored.data, static_cast<size_t>(stored.bytes));
    tensors[name] = std::move(tensor);
  }
  return tensors;
}

void WriteTensors(const Path& path, const Tensors& tensors) {
  std::vector<TensorToWrite> list;
  for (const auto& [name, tensor] : tensors) {
    list.push_back({name, DType::kF32, tensor.shape, tensor.values.data(), {}});
  }
  WriteSafetensorsFile(path, list);
}

// Rows [begin, end) of `from` behind those of `to`.
void AppendRows(Tensor& to, const Tensor& from, int64_t begin, int64_t end) {
  const int64_t cols = NumElements(from.shape) / from.shape[0];
  to.values.insert(to.values.end(), from.values.begin() + begin * cols,
                   from.values.begin() + end * cols);
  if (to.shape.empty()) {
    to.shape = from.shape;
    to.shape[0] = 0;
  }
  to.shape[0] += end - begin;
}

Tensor Take(Tensors& tensors, const std::string& name) {
  auto node = tensors.extract(name);
  EXPECT_FALSE(node.empty()) << name;
  return node.empty() ? Tensor{} : std::move(node.mapped());
}

// Replaces the parts of names that `renames` lists.
Tensors Rename(const Tensors& tensors,
               const std::vector<std::pair<std::string, std::string>>& renames) {
  Tensors result;
  for (const auto& [old, tensor] : tensors) {
    std::string name = old;
    for (const auto& [from, to] : renames) {
      const size_t at = name.find(from);
      if (at != std::string::npos) name.replace(at, from.size(), to);
    }
    result[name] = tensor;
  }
  return result;
}

struct Conversion {
  std::string source;
  std::function<Json(const Json&)> config;
  std::function<Tensors(Tensors)> tensors;
};

void Convert(const Conversion& conversion, const Path& to) {
  const Path from = Path(LAZYTRAIN_SHARED_DIR) / "golden" / conversion.source;
  for (const char* file : {"expected.json", "io.safetensors"}) {
    WriteFile(to / file, ReadFile(from / file));
  }
  WriteFile(to / "config.json", conversion.config(ReadJsonFile(from / "config.json")).dump());
  for (const char* file : {"model.safetensors", "grads.safetensors"}) {
    WriteTensors(to / file, conversion.tensors(ReadTensors(from / file)));
  }
}

VerifyReport RunVerify(const Path& folder, const std::string& schedule) {
  VerifyOptions options;
  options.case_folder = folder;
  options.schedule = schedule;
  return Verify(options);
}

void ExpectAgreement(const Conversion& conversion) {
  const TempFolder temp;
  const Path& folder = temp.path();
  Convert(conversion, folder);
  const VerifyReport resident = RunVerify(folder, "resident");
  for (const VerifyMeasure& m : resident.measures) {
    EXPECT_TRUE(m.ok()) << m.name << " " << m.error << " at " << m.where;
  }
  EXPECT_EQ(RunVerify(folder, "interval:2").bits, resident.bits);
}

std::string LayerName(int64_t layer, const char* rest) {
  return "model.layers." + std::to_string(layer) + "." + rest;
}

TEST(ConvertedCases, InternLm2IsLlamaWithGroupedHeads) {
  const Conversion conversion{
      "llama3",
      [](Json config) {
        config["model_type"] = "internlm2";
        config["bias"] = false;
        return config;
      },
      [](Tensors tensors) {
        constexpr int64_t kDim = 16;
        for (int64_t layer = 0; layer < 3; ++layer) {
          const Tensor q = Take(tensors, LayerName(layer, "self_attn.q_proj.weight"));
          const Tensor k = Take(tensors, LayerName(layer, "self_attn.k_proj.weight"));
          const Tensor v = Take(tensors, LayerName(layer, "self_attn.v_proj.weight"));
          Tensor& wqkv = tensors[LayerName(layer, "attention.wqkv.weight")];
          for (int64_t group = 0; group < 2; ++group) {
            AppendRows(wqkv, q, group * 2 * kDim, (group + 1) * 2 * kDim);
            AppendRows(wqkv, k, group * kDim, (group + 1) * kDim);
            AppendRows(wqkv, v, group * kDim, (group + 1) * kDim);
          }
        }
        return Rename(tensors, {{"embed_tokens", "tok_embeddings"},
                                {"lm_head", "output"},
                                {"self_attn.o_proj", "attention.wo"},
                                {"mlp.gate_proj", "feed_forward.w1"},
                                {"mlp.up_proj", "feed_forward.w3"},
                                {"mlp.down_proj", "feed_forward.w2"},
                                {"input_layernorm", "attention_norm"},
                                {"post_attention_layernorm", "ffn_norm"}});
      }};
  ExpectAgreement(conversion);
}

TEST(ConvertedCases, ChatGlmIsGlmWithFusedTensors) {
  const Conversion conversion{
      "glm",
      [](const Json& config) {
        return Json{{"model_type", "chatglm"},
                    {"padded_vocab_size", config["vocab_size"]},
                    {"vocab_size", config["vocab_size"]},
                    {"hidden_size", config["hidden_size"]},
                    {"ffn_hidden_size", config["intermediate_size"]},
                    {"num_layers", config["num_hidden_layers"]},
                    {"num_attention_heads", config["num_attention_heads"]},
                    {"multi_query_attention", true},
                    {"multi_query_group_num", config["num_key_value_heads"]},
                    {"kv_channels", config["head_dim"]},
                    {"layernorm_epsilon", config["rms_norm_eps"]},
                    {"add_qkv_bias", true},
                    {"seq_length", 256}};
      },
      [](Tensors tensors) {
        for (int64_t layer = 0; layer < 3; ++layer) {
          for (const std::string kind : {".weight", ".bias"}) {
            Tensor fused;
            for (const char* part : {"q_proj", "k_proj", "v_proj"}) {
              const std::string name = std::string("self_attn.") + part + kind;
              const Tensor tensor = Take(tensors, LayerName(layer, name.c_str()));
              AppendRows(fused, tensor, 0, tensor.shape[0]);
            }
            const std::string name = "self_attention.query_key_value" + kind;
            tensors[LayerName(layer, name.c_str())] = fused;
          }
        }
        return Rename(tensors, {{"model.embed_tokens", "transformer.embedding.word_embeddings"},
                                {"model.norm", "transformer.encoder.final_layernorm"},
                                {"lm_head", "transformer.output_layer"},
                                {"model.layers", "transformer.encoder.layers"},
                                {"self_attn.o_proj", "self_attention.dense"},
                                {"mlp.gate_up_proj", "mlp.dense_h_to_4h"},
                                {"mlp.down_proj", "mlp.dense_4h_to_h"}});
      }};
  ExpectAgreement(conversion);
}

// Llama with a fused projection, and logits divided by the length of their row of the head: the
// reference's logits are known, its loss and gradients are not (tests/ops has the head's).
TEST(ConvertedCases, BaichuanIsLlamaWithANormalizedHead) {
  const Conversion conversion{
      "llama2",
      [](Json config) {
        config["model_type"] = "baichuan";
        return config;
      },
      [](Tensors tensors) {
        for (int64_t layer = 0; layer < 3; ++layer) {
          Tensor fused;
          for (const char* part : {"q_proj", "k_proj", "v_proj"}) {
            const std::string name = std::string("self_attn.") + part + ".weight";
            const Tensor tensor = Take(tensors, LayerName(layer, name.c_str()));
            AppendRows(fused, tensor, 0, tensor.shape[0]);
          }
          tensors[LayerName(layer, "self_attn.W_pack.weight")] = fused;
        }
        return tensors;
      }};
  const TempFolder temp;
  const Path& folder = temp.path();
  Convert(conversion, folder);
  const Tensor head = ReadTensors(folder / "model.safetensors").at("lm_head.weight");
  std::vector<TensorToWrite> list;
  const SafetensorsFile io(Path(LAZYTRAIN_SHARED_DIR) / "golden/llama2/io.safetensors");
  Tensor logits = ReadTensors(io.path()).at("logits");
  const int64_t vocab = head.shape[0];
  const int64_t hidden = head.shape[1];
  for (size_t at = 0; at < logits.values.size(); ++at) {
    const int64_t row = static_cast<int64_t>(at) % vocab;
    double squares = 0;
    for (int64_t i = 0; i < hidden; ++i) {
      squares += double{head.values[row * hidden + i]} * head.values[row * hidden + i];
    }
    logits.values[at] = static_cast<float>(logits.values[at] / std::sqrt(squares));
  }
  for (const auto& [name, stored] : io.tensors()) {
    const void* data = name == "logits" ? static_cast<const void*>(logits.values.data())
                                        : static_cast<const void*>(stored.data);
    list.push_back({name, stored.dtype, stored.shape, data, {}});
  }
  WriteSafetensorsFile(folder / "io.safetensors", list);

  const VerifyReport resident = RunVerify(folder, "resident");
  EXPECT_EQ(resident.measures[0].name, "logits");
  EXPECT_TRUE(resident.measures[0].ok()) << resident.measures[0].error;
  EXPECT_EQ(RunVerify(folder, "interval:2").bits, resident.bits);
}

}  // namespace
}  // namespace lazytrain
