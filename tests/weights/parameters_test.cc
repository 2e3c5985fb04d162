#include "weights/parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "core/random.h"
#include "model/family.h"
#include "tests/temp_folder.h"

namespace lazytrain {
namespace {

using ::testing::HasSubstr;

ModelGraph SmallModel(DType dtype) {
  const Json config = {{"model_type", "qwen2"},    {"vocab_size", 30},
                       {"hidden_size", 8},         {"intermediate_size", 12},
                       {"num_hidden_layers", 2},   {"num_attention_heads", 2},
                       {"num_key_value_heads", 1}, {"tie_word_embeddings", false}};
  GraphOptions options;
  options.dtype = dtype;
  return BuildModelGraph(HubConfig(config, "config"), options);
}

struct Store {
  explicit Store(const UnitSpec& unit)
      : weights(static_cast<size_t>(unit.bytes)), low(static_cast<size_t>(unit.elements)) {}
  UnitMemory memory() { return {weights.data(), low.data()}; }
  std::vector<std::byte> weights;
  std::vector<int16_t> low;
};

TEST(Parameters, WrittenAndReadBackToTheBit) {
  const ModelGraph model = SmallModel(DType::kBF16);
  std::vector<Store> stores;
  for (const UnitSpec& unit : model.units) {
    stores.emplace_back(unit);
    InitializeUnit(unit, 3, 0.5, stores.back().memory());
  }
  const TempFolder temp;
  const Path& folder = temp.path();
  SafetensorsWriter writer(folder);
  AddModelTensors(
      model, [&](size_t u) { return stores[u].weights.data(); }, writer);
  writer.Write();
  const Checkpoint checkpoint(folder);
  CheckNothingLeftOver(checkpoint, model);
  for (size_t u = 0; u < model.units.size(); ++u) {
    Store read(model.units[u]);
    ReadUnit(checkpoint, model.units[u], read.memory());
    EXPECT_EQ(read.weights, stores[u].weights);
    for (const int16_t low : read.low) EXPECT_EQ(low, 0);  // bfloat16 files hold no more
  }
}

// A float32 checkpoint trained in bfloat16 keeps every bit, in weight and master_low together.
TEST(Parameters, Float32CheckpointsAreSplitExactly) {
  const ModelGraph wide = SmallModel(DType::kF32);
  const ModelGraph narrow = SmallModel(DType::kBF16);
  std::vector<Store> stores;
  for (const UnitSpec& unit : wide.units) {
    stores.emplace_back(unit);
    InitializeUnit(unit, 4, 0.5, stores.back().memory());
  }
  const TempFolder temp;
  const Path& folder = temp.path();
  SafetensorsWriter writer(folder);
  AddModelTensors(
      wide, [&](size_t u) { return stores[u].weights.data(); }, writer);
  writer.Write();
  const Checkpoint checkpoint(folder);
  for (size_t u = 0; u < narrow.units.size(); ++u) {
    Store read(narrow.units[u]);
    ReadUnit(checkpoint, narrow.units[u], read.memory());
    for (size_t p = 0; p < narrow.units[u].parameters.size(); ++p) {
      const ParameterSpec& from = wide.units[u].parameters[p];
      const ParameterSpec& to = narrow.units[u].parameters[p];
      for (int64_t i = 0; i < to.elements(); ++i) {
        const auto exact = std::bit_cast<uint32_t>(
            reinterpret_cast<const float*>(stores[u].weights.data() + from.byte_offset)[i]);
        const auto high =
            reinterpret_cast<const uint16_t*>(read.weights.data() + to.byte_offset)[i];
        const int16_t low = read.low[static_cast<size_t>(to.element_offset + i)];
        ASSERT_EQ((uint32_t{high} << 16) + static_cast<uint32_t>(int32_t{low}), exact);
      }
    }
  }
}

std::string ErrorOf(const std::vector<TensorToWrite>& tensors, const ModelGraph& model) {
  const TempFolder temp;
  const Path& folder = temp.path();
  WriteSafetensorsFile(folder / "model.safetensors", tensors);
  try {
    const Checkpoint checkpoint(folder);
    CheckNothingLeftOver(checkpoint, model);
    Store store(model.units[0]);
    ReadUnit(checkpoint, model.units[0], store.memory());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Parameters, BadCheckpointsNameTheTensor) {
  const ModelGraph model = SmallModel(DType::kF32);
  std::vector<float> table(30 * 8, 1.0f);
  const std::string name = "model.embed_tokens.weight";
  EXPECT_EQ(ErrorOf({{name, DType::kF32, {30, 8}, table.data(), {}}}, model), "");
  EXPECT_THAT(ErrorOf({{name, DType::kF32, {8, 30}, table.data(), {}}}, model),
              ::testing::AllOf(HasSubstr(name), HasSubstr("[8, 30]"), HasSubstr("[30, 8]")));
  table[77] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(ErrorOf({{name, DType::kF32, {30, 8}, table.data(), {}}}, model),
              ::testing::AllOf(HasSubstr(name), HasSubstr("element 77")));
  EXPECT_THAT(ErrorOf({{"model.embed.weight", DType::kF32, {30, 8}, table.data(), {}}}, model),
              HasSubstr("model.embed.weight"));
}

TEST(Parameters, HalfPrecisionWidensExactly) {
  const ModelGraph model = SmallModel(DType::kF32);
  std::vector<uint16_t> halves(30 * 8, 0x3c00);  // 1
  halves[0] = 0xc000;                            // -2
  halves[1] = 0x0001;                            // the smallest subnormal, 2^-24
  halves[2] = 0x7bff;                            // 65504
  const TempFolder temp;
  const Path& folder = temp.path();
  WriteSafetensorsFile(folder / "model.safetensors",
                       {{"model.embed_tokens.weight", DType::kF16, {30, 8}, halves.data(), {}}});
  Store store(model.units[0]);
  ReadUnit(Checkpoint(folder), model.units[0], store.memory());
  const auto* values = reinterpret_cast<const float*>(store.weights.data());
  EXPECT_EQ(values[0], -2.0f);
  EXPECT_EQ(values[1], std::ldexp(1.0f, -24));
  EXPECT_EQ(values[2], 65504.0f);
  EXPECT_EQ(values[3], 1.0f);
}

}  // namespace
}  // namespace lazytrain
