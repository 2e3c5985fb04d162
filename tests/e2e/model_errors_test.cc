// Damaged model folders: the message names the file, the key or tensor, and what is wrong with it.
#include <algorithm>
#include <functional>

#include "tests/e2e/program.h"

namespace lazytrain {
namespace {

class ModelErrors : public ProgramTest {
 protected:
  void Refuse(int status, const Words& parts) const {
    ExpectRefused({"model.name=model"}, status, parts);
  }

  // config.json with one change.
  void RefuseConfig(const std::string& key, const Json& value, const Words& parts) const {
    SCOPED_TRACE(key + ": " + value.dump());
    CopyModel();
    Json config = ReadJsonFile(*this / "model" / "config.json");
    config[key] = value;
    Write("model/config.json", config.dump(2));
    Refuse(1, parts);
  }

  void RefuseWeights(const std::function<void(Weights&)>& damage, const Words& parts) const {
    SCOPED_TRACE(testing::PrintToString(parts));
    CopyModel();
    const Path path = *this / "model" / "model.safetensors";
    Weights weights = Weights::Read(path);
    damage(weights);
    weights.Write(path);
    Refuse(1, parts);
    ExpectError(Run({"generate", "--model", "model", "--prompt", "a", "--max-new-tokens", "1"}), 1,
                parts);
  }
};

TEST_F(ModelErrors, NoModel) {
  ExpectRefused({"model.name=/nothere/model"}, 2, {"model.name", "'/nothere/model'", "folder"});
  ExpectRefused({"model.name=Qwen/Qwen2.5-7B"}, 2,
                {"model.name", "'Qwen/Qwen2.5-7B'", "not downloaded", "its folder"});
  ExpectRefused({"model.name=data.txt"}, 2, {"model.name", "'data.txt' is a file"});
  std::filesystem::create_directory(*this / "empty");
  ExpectRefused({"model.name=empty"}, 1, {"empty:", "config.json", "hub model"});
}

TEST_F(ModelErrors, ConfigFile) {
  CopyModel();
  const std::string good = ReadFile(*this / "model" / "config.json");
  std::string text = good;
  text.replace(text.find("128,"), 4, "128 ");  // hidden_size, line 10
  const std::vector<std::pair<std::string, Words>> files = {
      {text, {"model/config.json:11: malformed JSON"}},
      {"", {"model/config.json:1: malformed JSON"}},
      {"[1]", {"model/config.json:", "object"}},
      {std::string(100000, '['), {"model/config.json:1:", "nested"}},
      {"{\n\"rope_theta\": 1e999}", {"model/config.json:2:", "1e999"}},
      {"{\"model_type\": \"llama\"}", {"model/config.json: 'vocab_size' is missing"}},
      {"{}", {"model/config.json: 'model_type' is missing"}},
  };
  for (const auto& [content, parts] : files) {
    SCOPED_TRACE(content.substr(0, 100));
    Write("model/config.json", content);
    Refuse(1, parts);
  }
}

TEST_F(ModelErrors, ConfigValues) {
  RefuseConfig("hidden_size", "128", {"config.json: 'hidden_size'", "whole number"});
  RefuseConfig("hidden_size", 128.5, {"'hidden_size' is 128.5"});
  RefuseConfig("hidden_size", -128, {"'hidden_size' is -128"});
  RefuseConfig("num_hidden_layers", 0, {"'num_hidden_layers' is 0"});
  RefuseConfig("num_hidden_layers", 1000000, {"config.json", "1000000 layers"});
  RefuseConfig("hidden_size", int64_t{1} << 40, {"'hidden_size' is 1099511627776"});
  RefuseConfig("vocab_size", 1e30, {"'vocab_size'", "whole number"});
  RefuseConfig("hidden_size", INT32_MAX - 15, {"config.json", "head_dim of 268435454"});
  RefuseConfig("num_attention_heads", 7, {"'num_attention_heads' 7"});
  RefuseConfig("num_key_value_heads", 3, {"'num_key_value_heads' 3"});
  RefuseConfig("num_key_value_heads", 16, {"'num_key_value_heads' 16"});
  RefuseConfig("head_dim", 15, {"'head_dim' is 15", "even"});
  RefuseConfig("head_dim", INT32_MAX - 1, {"config.json", "head_dim of 2147483646"});
  RefuseConfig("model_type", "mamba", {"config.json", "'mamba'", "llama", "qwen2"});
  RefuseConfig("model_type", "ma\nmba", {"'ma mba'"});
  RefuseConfig("model_type", 5, {"'model_type' is 5", "string"});
  RefuseConfig("hidden_act", "gelu", {"'gelu'", "silu"});
  RefuseConfig("rms_norm_eps", -1, {"'rms_norm_eps' is -1"});
  RefuseConfig("rope_theta", -5, {"'rope_theta' is -5"});
  RefuseConfig("rope_scaling", {{"rope_type", "spiral"}}, {"rope_scaling", "'spiral'", "llama3"});
  RefuseConfig("rope_scaling", {{"rope_type", "linear"}}, {"rope_scaling: 'factor' is missing"});
  RefuseConfig("rope_scaling", "linear", {"'rope_scaling'", "object"});
  RefuseConfig("attention_bias", "no", {"'attention_bias'", "true or false"});
}

TEST_F(ModelErrors, ConfigAgainstWeights) {
  RefuseConfig("num_hidden_layers", 3, {"model:", "model.layers.2.input_layernorm.weight"});
  RefuseConfig("num_hidden_layers", 1, {"model.safetensors: model.layers.1."});
  RefuseConfig("intermediate_size", 386, {"gate_proj.weight", "[384, 128]", "[386, 128]"});
  RefuseConfig("tie_word_embeddings", false, {"'lm_head.weight'"});
  RefuseConfig("attention_bias", true, {"'model.layers.0.self_attn.q_proj.bias'"});
}

TEST_F(ModelErrors, TokenizerLargerThanModel) {
  CopyModel();
  Weights weights = Weights::Read(*this / "model" / "model.safetensors");
  // Half of the table, the rest moved up.
  Json& table = weights.header["model.embed_tokens.weight"];
  const size_t begin = weights.Begin("model.embed_tokens.weight");
  const size_t cut = 1024 * 128 * 2;
  weights.data.erase(begin + cut, cut);
  table["shape"] = {1024, 128};
  for (auto& [name, entry] : weights.header.items()) {
    if (name == "__metadata__") continue;
    auto offsets = entry["data_offsets"].get<std::vector<size_t>>();
    for (size_t& offset : offsets) offset -= offset > begin ? cut : 0;
    entry["data_offsets"] = offsets;
  }
  weights.Write(*this / "model" / "model.safetensors");
  Json config = ReadJsonFile(*this / "model" / "config.json");
  config["vocab_size"] = 1024;
  Write("model/config.json", config.dump());
  Refuse(1, {"tokenizer.json", "vocab_size 1024"});
  ExpectError(Run({"generate", "--model", "model", "--prompt", "little girl named Lily. zebra"}), 1,
              {"vocabulary of 1024"});
}

TEST_F(ModelErrors, WeightFiles) {
  CopyModel();
  const std::string good = ReadFile(*this / "model" / "model.safetensors");
  for (const size_t bytes : {size_t{0}, size_t{5}, size_t{1000}, good.size() - 1}) {
    SCOPED_TRACE(bytes);
    Write("model/model.safetensors", good.substr(0, bytes));
    Refuse(1, {"model/model.safetensors: truncated"});
  }
  std::filesystem::remove(*this / "model" / "model.safetensors");
  Refuse(1, {"model: has no weights", "model.safetensors"});
}

TEST_F(ModelErrors, Tensors) {
  const std::string up = "model.layers.1.mlp.up_proj.weight";
  const std::string norm = "model.norm.weight";
  RefuseWeights([&](Weights& w) { w.data.replace(w.Begin(up) + 10, 2, "\xc0\x7f", 2); },
                {"model.safetensors: " + up, "element 5", "finite"});
  RefuseWeights([&](Weights& w) { w.data.replace(w.Begin(norm) + 2, 2, "\x80\xff", 2); },
                {"model.safetensors: " + norm, "element 1", "finite"});
  RefuseWeights(
      [&](Weights& w) {
        w.header[up]["shape"] = {128, 384};
      },
      {up, "[128, 384]", "[384, 128]"});
  RefuseWeights(
      [&](Weights& w) {
        w.header[up + "2"] = w.header[up];
        w.header.erase(up);
      },
      {up + "2", "no such tensor"});
  RefuseWeights(
      [&](Weights& w) {
        w.header["extra"] = {{"dtype", "BF16"},
                             {"shape", {2}},
                             {"data_offsets", {w.data.size(), w.data.size() + 4}}};
        w.data.append(4, '\0');
      },
      {"model.safetensors: extra", "no such tensor"});
  RefuseWeights([&](Weights& w) { w.header[norm]["dtype"] = "I16"; }, {norm, "I16", "BF16"});
  RefuseWeights(
      [&](Weights& w) {  // the last tensor of the file, so that nothing is left uncovered
        std::string last;
        for (const auto& [name, entry] : w.header.items()) {
          if (name != "__metadata__" && (last.empty() || w.Begin(name) > w.Begin(last)))
            last = name;
        }
        w.data.resize(w.Begin(last));
        w.header.erase(last);
      },
      {"has no tensor 'model."});
}

TEST_F(ModelErrors, Tokenizers) {
  CopyModel();
  const std::string good = ReadFile(*this / "model" / "tokenizer.json");
  std::filesystem::remove(*this / "model" / "tokenizer.json");
  Refuse(1, {"model:", "tokenizer.json"});
  Write("model/tokenizer.json", good.substr(0, 1000));
  Refuse(1, {"model/tokenizer.json:54: malformed JSON"});
  Write("model/tokenizer.json", "{}");
  Refuse(1, {"model/tokenizer.json", "'model'"});
  Write("model/tokenizer.json", good);
  Write("model/tokenizer_config.json", "{\n[");
  Refuse(1, {"model/tokenizer_config.json:2: malformed JSON"});
  Write("model/tokenizer_config.json", "{\"bos_token\": \"<nope>\"}");
  Refuse(1, {"model/tokenizer_config.json: bos_token", "'<nope>'"});
}

}  // namespace
}  // namespace lazytrain
