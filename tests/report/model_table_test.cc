#include "report/model_table.h"

#include <gmock/gmock.h>

#include "model/family.h"

namespace lazytrain {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

ModelGraph Build(const Json& changes) {
  Json config = {{"model_type", "qwen3"},      {"vocab_size", 96},
                 {"hidden_size", 32},          {"intermediate_size", 48},
                 {"num_hidden_layers", 3},     {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},   {"head_dim", 8},
                 {"num_experts", 6},           {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 16}};
  config.update(changes);
  return BuildModelGraph(HubConfig(config, "config.json"), {});
}

TEST(ModelTable, ListsUnitsValuesAndOps) {
  const ModelGraph model = Build(Json::object());
  const std::string table = ModelTable(model, 10);
  EXPECT_THAT(table, HasSubstr("segments layers.0 to layers.2 (3 of one shape)"));
  // A layer by hand: norms 2 * 32 + 2 * 8, qkv 64 * 32, o 32 * 32, MLP 3 * 32 * 48.
  EXPECT_THAT(table, ContainsRegex("layers\\.\\* +3 +7760 .* 23280"));
  EXPECT_THAT(table, ContainsRegex("gate_up +96 bfloat16 +192 token +gate_up"));
  EXPECT_THAT(table, ContainsRegex("lse +4 float32 +16 token +attn"));
  // 2 * 32 * 64 forward, twice that backward.
  EXPECT_THAT(table, ContainsRegex("qkv_proj +linear +4096 +8192"));
  // Half of 10 tokens seen on average: 2 products * 2 * 5 * 32.
  EXPECT_THAT(table, ContainsRegex("attention +attention +640 +1600"));
  EXPECT_THAT(table, HasSubstr("parameters " + std::to_string(model.ParameterCount())));
  EXPECT_THAT(table, Not(HasSubstr("vision")));
}

TEST(ModelTable, ExpertsAreUnits) {
  const std::string table = ModelTable(Build({{"model_type", "qwen3_moe"}}), 10);
  EXPECT_THAT(table, ContainsRegex("layers\\.\\*\\.experts\\.\\* +18 +1536 "));
  // Two experts a token: 2 * 2 * (32 * 32).
  EXPECT_THAT(table, ContainsRegex("expert_gate_up +expert_linear +4096 +8192"));
}

}  // namespace
}  // namespace lazytrain
