// What is written from the table: the resolved configuration and the reference; and noise.
#include <algorithm>

#include "config_harness.h"
#include "core/random.h"
#include "train/config/options.h"

namespace lazytrain {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<std::string>& ManySettings() {
  static const std::vector<std::string> settings = {
      "model.name=\"with space: # \\\"quotes\\\" and \\\\ \xc3\xa4\"",
      "dataset.name=['a b', 'null', c.d, \"true\", '5']",
      "dataset.packing=false",
      "training.num_steps=0",
      "training.num_epochs=2",
      "training.batch_tokens=8192",
      "training.learning_rate=0.00012345678901234567",
      "training.deterministic=false",
      "training.warmup_steps=7",
      "training.seed=9223372036854775807",
      "training.output_dir=null/5",
      "optimizer.eps=1e-300",
      "optimizer.clip=off",
      "memory.host_memory_gb=100",
      "memory.schedule=my plans/a.json",
      "memory.passes=3",
      "memory.micro_batch_tokens=4096",
      "memory.device_memory_gb=0.1",
      "hardware.profile=my machine.json",
      "hardware.h2d_gbps=1e22",
      "hardware.throttle=true",
      "eval.every=50",
      "logging.trace_steps=[1, 2, 999]",
  };
  return settings;
}

TEST_F(ConfigTest, ResolvedConfigurationLoadsAsTheSame) {
  for (const std::vector<std::string>& settings : {std::vector<std::string>(), ManySettings()}) {
    const Config config = Load(kMinimal, settings);
    const std::string yaml = ToYaml(config);
    const Config again = Load(yaml);
    EXPECT_EQ(again, config) << yaml;
    EXPECT_EQ(ToYaml(again), yaml);
    for (const Option& option : Options()) {
      EXPECT_TRUE(again.Given(option.key)) << option.key;
    }
  }
  EXPECT_FALSE(Load(kMinimal) == Load(kMinimal, {"training.seed=1"}));
}

TEST_F(ConfigTest, ResolvedDefaultsHaveNothingToNote) {
  const std::string yaml = ToYaml(Load(kMinimal));
  Load(yaml);
  EXPECT_THAT(notes_, IsEmpty());
  EXPECT_THAT(yaml, HasSubstr("training:\n  batch_size: 72                     # examples a step"));
  EXPECT_THAT(yaml, HasSubstr("\n  learning_rate: 1.0e-05             #"));
  EXPECT_THAT(yaml, HasSubstr("\n  schedule: solve "));
}

TEST_F(ConfigTest, WholeFloatsStayFloats) {
  const Config config = Load(kMinimal, {"eval.every=2.0"});
  EXPECT_EQ(std::get<double>(Load(ToYaml(config)).eval.every), 2.0);
}

TEST_F(ConfigTest, EveryOptionIsWellFormed) {
  for (const Option& option : Options()) {
    EXPECT_EQ(std::count(option.key.begin(), option.key.end(), '.'), 1) << option.key;
    EXPECT_FALSE(option.help.empty()) << option.key;
    EXPECT_EQ(option.help.find_first_of("|\n"), std::string_view::npos) << option.key;
    EXPECT_EQ(FindOption(option.key), &option);
    const auto sections = Sections();
    EXPECT_TRUE(std::any_of(sections.begin(), sections.end(), [&](const Section& section) {
      return section.name == option.section();
    })) << option.key;
    EXPECT_THAT(ConfigReference(), HasSubstr(fmt::format("| `{}` |", option.leaf())));
    EXPECT_THAT(ConfigHelp(), HasSubstr(fmt::format("  {}=", option.key)));
  }
}

// docs/configuration.md is written by ConfigReference. When this fails after a change of the table,
// copy the file that the message names over it.
TEST(ConfigReferenceTest, CommittedReferenceIsTheTables) {
  const Path committed = Path(LAZYTRAIN_SOURCE_DIR) / "docs" / "configuration.md";
  const Path fresh = Path(::testing::TempDir()) / "configuration.md";
  WriteFile(fresh, ConfigReference());
  EXPECT_TRUE(ReadFile(committed) == ReadFile(fresh))
      << "cp " << fresh.string() << " " << committed.string();
}

// A random change of a text: bytes replaced, removed, doubled, or pieces moved.
std::string Mutate(std::string text, Random* random) {
  static constexpr std::string_view kBytes =
      ":#-[]{}\"'&*!|>%@`?,=~ \n\t\r.0123456789eaz\x80\xff\x01";
  for (int64_t changes = random->Between(1, 6); changes > 0 && !text.empty(); --changes) {
    const size_t at = random->Below(text.size());
    const size_t length = random->Below(std::min<size_t>(text.size() - at, 30) + 1);
    switch (random->Below(5)) {
      case 0:
        text[at] = kBytes[random->Below(kBytes.size())];
        break;
      case 1:
        text.insert(at, 1, kBytes[random->Below(kBytes.size())]);
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(random->Below(text.size()), text.substr(at, length));
        break;
      default:
        text[at] = static_cast<char>(random->Below(256));
    }
  }
  return text;
}

TEST_F(ConfigTest, NoiseGivesAConfigurationOrAnError) {
  Random random(7);
  const std::string valid = ToYaml(Load(kMinimal, ManySettings()));
  const std::string start =
      "training:\n  num_steps: 5\nmodel: {name: m}\ndataset:\n  name: [a, b]\n";
  int loaded = 0;
  int refused = 0;
  for (int run = 0; run < 2000; ++run) {
    const std::string text = Mutate(run % 3 == 0 ? start : valid, &random);
    try {
      const Config config = Load(text);
      ++loaded;
      ASSERT_EQ(Load(ToYaml(config)), config) << text;
    } catch (const Error& error) {
      ++refused;
      const std::string message = error.what();
      ASSERT_EQ(error.kind(), ErrorKind::kUsage) << message;
      ASSERT_EQ(message.find('\n'), std::string::npos) << message;
      ASSERT_EQ(Local(message).rfind("run.yaml:", 0), 0u) << message;
      ASSERT_LT(Local(message).size(), 500u) << message;
    }
  }
  EXPECT_GT(loaded, 100);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace lazytrain
