#include "model/rope_frequencies.h"

#include <gmock/gmock.h>

#include <cmath>

#include "core/error.h"
#include "ops/rope.h"

namespace lazytrain {
namespace {

using ::testing::HasSubstr;

HubConfig Config(const char* text) { return HubConfig(Json::parse(text), "config.json"); }

// Expected numbers are those of transformers 5.17 (modeling_rope_utils, computed in float32).
void ExpectFrequencies(const std::vector<float>& actual, const std::vector<double>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(actual[i], expected[i], 3e-7 * expected[i]) << i;
  }
}

const std::vector<double> kUnscaled = {1,    0.316227766,   0.1,   0.0316227766,
                                       0.01, 0.00316227766, 0.001, 0.000316227766};

TEST(RopeFrequencies, WithoutScaling) {
  for (const char* text : {"{}", R"({"rope_theta": 10000.0, "rope_scaling": null})",
                           R"({"rope_parameters": {"rope_type": "default", "rope_theta": 10000}})",
                           R"({"rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}})"}) {
    const RopeFrequencies rope = ReadRopeFrequencies(Config(text), 16);
    ExpectFrequencies(rope.inverse, kUnscaled);
    EXPECT_EQ(rope.scaling, 1.0f);
    EXPECT_TRUE(rope.long_inverse.empty());
  }
}

TEST(RopeFrequencies, Linear) {
  const RopeFrequencies rope =
      ReadRopeFrequencies(Config(R"({"rope_scaling": {"type": "linear", "factor": 4.0}})"), 16);
  std::vector<double> expected = kUnscaled;
  for (double& value : expected) value /= 4.0;
  ExpectFrequencies(rope.inverse, expected);
}

// Numbers of transformers' _compute_dynamic_ntk_parameters (float32) for sequences of that length.
TEST(RopeFrequencies, DynamicGrowsWithTheDocument) {
  const HubConfig config = Config(R"({"max_position_embeddings": 32, "rope_theta": 2000.0,
                                      "rope_scaling": {"type": "dynamic", "factor": 3.0}})");
  const RopeFrequencies read = ReadRopeFrequencies(config, 12);
  EXPECT_EQ(read.dynamic_factor, 3.0);
  EXPECT_EQ(read.long_beyond, 32);
  EXPECT_EQ(ContextTokens(config), 96);
  Rope op;
  op.inverse_frequencies = read.inverse;
  op.dynamic_factor = read.dynamic_factor;
  op.long_beyond = read.long_beyond;
  ExpectFrequencies(op.FrequenciesFor(32),
                    {1.0, 0.2817268967628479, 0.07937004417181015, 0.022360680624842644,
                     0.006299604196101427, 0.001774768577888608});
  ExpectFrequencies(op.FrequenciesFor(33),
                    {1.0, 0.27672263979911804, 0.07657542079687119, 0.021190157160162926,
                     0.0058637959882617, 0.0016226457664743066});
  ExpectFrequencies(op.FrequenciesFor(70),
                    {1.0, 0.20796379446983337, 0.043248940259218216, 0.008994215168058872,
                     0.001870471052825451, 0.00038899038918316364});
}

TEST(RopeFrequencies, ContextIsWhatTheFileSays) {
  EXPECT_EQ(ContextTokens(Config("{}")), 2048);
  EXPECT_EQ(ContextTokens(Config(R"({"max_position_embeddings": 4096,
      "rope_scaling": {"rope_type": "linear", "factor": 4.0}})")),
            4096);
  EXPECT_EQ(ContextTokens(Config(R"({"max_position_embeddings": 1000,
      "rope_parameters": {"rope_type": "dynamic", "factor": 2.5}})")),
            2500);
}

// Those that float32 arithmetic gives where 2i / 96 is no float32 number: to the bit.
TEST(RopeFrequencies, AreFloat32Arithmetic) {
  const RopeFrequencies rope = ReadRopeFrequencies(Config(R"({"rope_theta": 1000000.0})"), 96);
  EXPECT_EQ(rope.inverse[5], 0.23713739216327667f);
  EXPECT_EQ(rope.inverse[8], 0.09999999403953552f);
  EXPECT_EQ(rope.inverse[47], 1.3335210269360687e-06f);
}

TEST(RopeFrequencies, Llama3) {
  const RopeFrequencies rope = ReadRopeFrequencies(
      Config(R"({"rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
                 "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                 "original_max_position_embeddings": 64}})"),
      16);
  ExpectFrequencies(rope.inverse, {1, 0.079403013, 0.00470075384, 0.000911583134, 0.000176776681,
                                   3.42810235e-05, 6.64787058e-06, 1.28917316e-06});
}

TEST(RopeFrequencies, Yarn) {
  const RopeFrequencies plain =
      ReadRopeFrequencies(Config(R"({"rope_scaling": {"type": "yarn", "factor": 4.0,
                 "original_max_position_embeddings": 64}})"),
                          16);
  ExpectFrequencies(plain.inverse, {1, 0.237170815, 0.05, 0.00790569466, 0.0025, 0.000790569466,
                                    0.00025, 7.90569466e-05});
  EXPECT_NEAR(plain.scaling, 1.13862944, 1e-6);
  const RopeFrequencies tuned = ReadRopeFrequencies(
      Config(R"({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "truncate": false,
                 "mscale": 0.707, "mscale_all_dim": 1.0, "beta_fast": 16, "beta_slow": 2,
                 "original_max_position_embeddings": 64}})"),
      16);
  ExpectFrequencies(tuned.inverse, {1, 0.14849025, 0.025, 0.00790569466, 0.0025, 0.000790569466,
                                    0.00025, 7.90569466e-05});
  EXPECT_NEAR(tuned.scaling, 0.964326915, 1e-6);
}

// Contexts so long that the first pairs are left alone: Qwen2.5's, and one with both betas.
TEST(RopeFrequencies, YarnKeepsFastPairs) {
  const RopeFrequencies qwen =
      ReadRopeFrequencies(Config(R"({"rope_theta": 1000000.0, "rope_scaling": {"type": "yarn",
                 "factor": 4.0, "original_max_position_embeddings": 32768}})"),
                          32);
  ExpectFrequencies(qwen.inverse, {1.0, 0.421696514, 0.177827939, 0.0749894157, 0.0316227786,
                                   0.0133352149, 0.00477990136, 0.00165996165, 0.000549999997,
                                   0.000168678613, 4.44569851e-05, 1.87473561e-05, 7.90569356e-06,
                                   3.33380399e-06, 1.40585337e-06, 5.92843435e-07});
  const RopeFrequencies tuned =
      ReadRopeFrequencies(Config(R"({"rope_parameters": {"rope_type": "yarn", "factor": 16.0,
                 "rope_theta": 10000.0, "beta_fast": 40, "beta_slow": 2, "truncate": false,
                 "original_max_position_embeddings": 4096}})"),
                          16);
  ExpectFrequencies(tuned.inverse, {1.0, 0.316227764, 0.100000001, 0.0250629056, 0.00432267226,
                                    0.000227607292, 6.2500003e-05, 1.97642366e-05});
  EXPECT_NEAR(tuned.scaling, 1.27725887, 1e-6);
}

TEST(RopeFrequencies, LongRopeHasASetForLongDocuments) {
  const RopeFrequencies rope = ReadRopeFrequencies(
      Config(R"({"max_position_embeddings": 256, "original_max_position_embeddings": 64,
                 "rope_scaling": {"type": "longrope",
                   "short_factor": [1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7],
                   "long_factor": [2, 3, 4, 5, 6, 7, 8, 9]}})"),
      16);
  ExpectFrequencies(rope.inverse, {1, 0.287479758, 0.0833333358, 0.0243252143, 0.00714285718,
                                   0.00210818532, 0.000624999986, 0.000186016332});
  ExpectFrequencies(rope.long_inverse, {0.5, 0.10540925, 0.025, 0.00632455572, 0.00166666671,
                                        0.000451753964, 0.000125000006, 3.51364179e-05});
  EXPECT_EQ(rope.long_beyond, 64);
  EXPECT_NEAR(rope.scaling, 1.15470054, 1e-6);
}

TEST(RopeFrequencies, ByLayerType) {
  const HubConfig config = Config(R"({"rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 100.0},
      "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}})");
  const RopeFrequencies full = ReadRopeFrequencies(config, 4, {5e5, "full_attention"});
  ExpectFrequencies(full.inverse, {0.5, 0.05});
  const RopeFrequencies sliding = ReadRopeFrequencies(config, 4, {5e5, "sliding_attention"});
  ExpectFrequencies(sliding.inverse, {1, 0.01});
}

TEST(RopeFrequencies, PartOfAHead) {
  EXPECT_EQ(RotaryChannels(Config("{}"), 128, 0.5), 64);
  EXPECT_EQ(RotaryChannels(Config(R"({"partial_rotary_factor": 0.75})"), 128, 0.5), 96);
  EXPECT_EQ(RotaryChannels(Config(R"({"partial_rotary_factor": 0.75,
                                      "rope_parameters": {"partial_rotary_factor": 0.25}})"),
                           128, 0.5),
            32);
}

TEST(RopeFrequencies, NamesWhatIsWrong) {
  const auto message = [](const char* text) -> std::string {
    try {
      ReadRopeFrequencies(Config(text), 16);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message(R"({"rope_scaling": {"type": "spiral"}})"), HasSubstr("'spiral'"));
  EXPECT_THAT(message(R"({"rope_scaling": {"type": "linear"}})"), HasSubstr("'factor'"));
  EXPECT_THAT(message(R"({"rope_scaling": {"type": "linear", "factor": 0}})"),
              HasSubstr("'factor'"));
  EXPECT_THAT(message(R"({"rope_scaling": {"type": "longrope", "short_factor": [1]}})"),
              HasSubstr("'short_factor' has to list 8 numbers"));
  EXPECT_THAT(message(R"({"rope_theta": -1})"), HasSubstr("'rope_theta'"));
  EXPECT_THAT(message(R"({"rope_scaling": {"type": "dynamic"}})"), HasSubstr("'factor'"));
  EXPECT_THAT(message(R"({"rope_parameters": {"full_attention": {"rope_theta": 5.0}}})"),
              HasSubstr("'full_attention' is an object"));
}

}  // namespace
}  // namespace lazytrain
