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
  // Where the number is from. "hub": the total that the hub shows for the model's safetensors files
  // (written from memory). "by hand": summed from the shapes of the reference implementation.
  const char* source;
};

void PrintTo(const Published& model, std::ostream* out) { *out << model.folder; }

constexpr Published kModels[] = {
    {"Baichuan2-7B", 7505973248, "hub"},
    {"DeepSeek-V2-Lite", 15706484224, "hub"},
    {"GLM-4-9B", 9399951360, "hub"},
    {"GLM-4.7-Flash", 29943393920, "by hand: without the multi-token prediction layer"},
    {"GPT-OSS-120B", 116829156672, "model card: 116.83 B; by hand"},
    {"GPT-OSS-20B", 20914757184, "model card: 20.91 B; by hand"},
    {"Gemma-2-9B", 9241705984, "hub"},
    {"Gemma-3-27B", 27432406640, "hub"},
    {"Gemma-3-4B", 4300079472, "hub"},
    {"InternLM2.5-7B", 7737708544, "hub"},
    {"InternVL2.5-8B", 8075365376, "hub"},
    {"LLaVA-1.5-7B", 7063427072, "hub"},
    {"Llama-3.1-8B", 8030261248, "hub"},
    {"Llama-3.2-3B", 3212749824, "hub"},
    {"Llama-4-Scout", 108641793536, "hub"},
    {"MiniCPM-V-2.6", 8099175152, "hub"},
    {"MiniCPM-V-4", 4059533040, "by hand; model card: 4.1 B"},
    {"Mistral-7B", 7248023552, "hub"},
    {"Mixtral-8x7B", 46702792704, "hub"},
    {"Phi-3-mini-4k", 3821079552, "hub"},
    {"Phi-3.5-mini", 3821079552, "hub"},
    {"Phi-4", 14659507200, "hub"},
    {"Phi-4-mini", 3836021760, "hub"},
    {"Qwen2.5-14B", 14770033664, "hub"},
    {"Qwen2.5-32B", 32763876352, "hub"},
    {"Qwen2.5-3B", 3085938688, "hub"},
    {"Qwen2.5-7B", 7615616512, "hub"},
    {"Qwen2.5-VL-7B", 8292166656, "hub"},
    {"Qwen3-0.6B", 596049920, "by hand: hub shows 751632384, the tied head stored twice"},
    {"Qwen3-30B-A3B", 30532122624, "hub"},
    {"Qwen3-8B", 8190735360, "hub"},
    {"Qwen3-Next-80B-A3B", 79674391296, "by hand: without the multi-token prediction layer"},
    {"Qwen3-VL-8B", 8767123696, "hub"},
    {"Qwen3.5-0.8B", 852985920, "by hand: without the multi-token prediction layer"},
    {"Qwen3.5-27B", 27356728560, "by hand: without the multi-token prediction layer"},
    {"Qwen3.5-35B-A3B", 35107181936, "by hand: without the multi-token prediction layer"},
    {"Qwen3.6-27B", 27356728560, "by hand: without the multi-token prediction layer"},
    {"SmolLM2-135M", 134515008, "hub"},
    {"Yi-1.5-9B", 8829407232, "hub"},
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
