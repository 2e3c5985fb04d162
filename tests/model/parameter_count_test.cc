// Parameter counts of real config.json files against published ones.
#include <gtest/gtest.h>

#include <ostream>
#include <set>
#include <string>

#include "model/family.h"

namespace lazytrain {
namespace {

struct Published {
  const char* folder;
  int64_t parameters;
  // Where the number is from, for the hub's repository of that model unless another is named; all
  // as public texts quote them. "index": `metadata.total_size` of model.safetensors.index.json,
  // bytes of 2-byte parameters. "hub": `safetensors.total` as the hub's API gives it. "GGUF":
  // `general.parameter_count` of the model's GGUF file. "KerasHub": `params` of the preset.
  // "transformers": the loaded model's parameters, counted. "computed": summed from the shapes of
  // the reference implementation; no published exact number was found.
  const char* source;
};

void PrintTo(const Published& model, std::ostream* out) { *out << model.folder; }

constexpr Published kModels[] = {
    {"Baichuan2-7B", 7505973248,
     "computed: 2 x 125696 x 4096 + 32 (4 x 4096^2 + 3 x 4096 x 11008 + 2 x 4096) + 4096"},
    {"DeepSeek-V2-Lite", 15706484224, "index: 31412968448"},
    {"GLM-4-9B", 9399951360, "chatllm.cpp, which prints it for GLM-4"},
    {"GLM-4.7-Flash", 29943393920, "GGUF, without the multi-token prediction layer"},
    {"GPT-OSS-120B", 116829156672, "GGUF; model card: 116.83 B"},
    {"GPT-OSS-20B", 20914757184, "GGUF; model card: 20.91 B"},
    {"Gemma-2-9B", 9241705984, "index: 18483411968"},
    {"Gemma-3-27B", 27432406640, "index: 54864813280"},
    {"Gemma-3-4B", 4300079472, "hub"},
    {"InternLM2.5-7B", 7737708544, "hub; chatllm.cpp, which prints it for InternLM"},
    {"InternVL2.5-8B", 8075365376, "hub"},
    {"LLaVA-1.5-7B", 7063427072, "transformers"},
    {"Llama-3.1-8B", 8030261248, "index: 16060522496 (also in transformers' documentation)"},
    {"Llama-3.2-3B", 3212749824, "hub"},
    {"Llama-4-Scout", 108641793536, "hub"},
    {"MiniCPM-V-2.6", 8099175152, "hub"},
    {"MiniCPM-V-4", 4059533040,
     "computed: text 3605834240, vision 417792240, resampler 35906560; model card: 4.1 B"},
    {"Mistral-7B", 7248023552, "index: 14496047104"},
    {"Mixtral-8x7B", 46702792704, "hub; KerasHub"},
    {"Phi-3-mini-4k", 3821079552, "index: 7642159104"},
    {"Phi-3.5-mini", 3821079552, "hub"},
    {"Phi-4", 14659507200, "index: 29319014400"},
    {"Phi-4-mini", 3836021760, "hub"},
    {"Qwen2.5-14B", 14770033664, "index: 29540067328"},
    {"Qwen2.5-32B", 32763876352, "index: 65527752704"},
    {"Qwen2.5-3B", 3085938688, "index: 6171877376"},
    {"Qwen2.5-7B", 7615616512, "index: 15231233024"},
    {"Qwen2.5-VL-7B", 8292166656, "index: 16584333312"},
    {"Qwen3-0.6B", 596049920, "transformers; hub, 751632384, counts the tied head twice"},
    {"Qwen3-30B-A3B", 30532122624, "index: 61064245248"},
    {"Qwen3-8B", 8190735360, "index: 16381470720"},
    {"Qwen3-Next-80B-A3B", 79674391296,
     "hub, Qwen/Qwen3-Coder-Next: the same shape, without a multi-token prediction layer"},
    {"Qwen3-VL-8B", 8767123696, "index: 17534247392"},
    {"Qwen3.5-0.8B", 852985920, "KerasHub, without the multi-token prediction layer"},
    {"Qwen3.5-27B", 27356728560, "KerasHub, without the multi-token prediction layer"},
    {"Qwen3.5-35B-A3B", 35107181936, "KerasHub, without the multi-token prediction layer"},
    {"Qwen3.6-27B", 27356728560, "transformers, without the multi-token prediction layer"},
    {"SmolLM2-135M", 134515008, "hub"},
    {"Yi-1.5-9B", 8829407232, "a public catalogue, 01-ai/Yi-1.5-9B-Chat-16K: the same shape"},
};

class ParameterCountTest : public ::testing::TestWithParam<Published> {};

TEST_P(ParameterCountTest, IsThePublishedOne) {
  const Path folder = Path(LAZYTRAIN_SHARED_DIR) / "model_configs" / GetParam().folder;
  const ModelGraph model = BuildModelGraph(HubConfig::FromFolder(folder), {});
  EXPECT_EQ(model.ParameterCount(), GetParam().parameters) << GetParam().source;

  std::set<std::pair<std::string, int64_t>> tensors;
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      int64_t elements = 0;
      for (const HubTensor& tensor : parameter.tensors) {
        EXPECT_TRUE(tensors.insert({tensor.name, tensor.entry}).second) << tensor.name;
        EXPECT_EQ(tensor.offset, elements) << tensor.name;
        elements += NumElements(tensor.shape);
      }
      EXPECT_EQ(elements, parameter.elements()) << unit.name << " " << parameter.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Configs, ParameterCountTest, ::testing::ValuesIn(kModels),
                         [](const auto& tested) {
                           std::string name = tested.param.folder;
                           for (char& c : name) c = std::isalnum(c) != 0 ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace lazytrain
