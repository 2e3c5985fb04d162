// What a configuration comes out as.
#include <yaml-cpp/yaml.h>

#include <map>
#include <regex>

#include "config_harness.h"
#include "train/config/options.h"

namespace lazytrain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// The first YAML block behind "## Configuration" in INTERFACE.md: key -> value, as it stands there.
std::map<std::string, std::string> InterfaceExample() {
  const std::string text = ReadFile(Path(LAZYTRAIN_SHARED_DIR) / "INTERFACE.md");
  const size_t begin = text.find("```yaml\n", text.find("## Configuration"));
  const size_t end = text.find("\n```\n", begin);
  std::map<std::string, std::string> values;
  for (const auto& section : YAML::Load(text.substr(begin + 8, end - begin - 8))) {
    for (const auto& entry : section.second) {
      values[section.first.Scalar() + "." + entry.first.Scalar()] =
          entry.second.IsSequence() ? "[]" : entry.second.Scalar();
    }
  }
  return values;
}

std::string WithoutQuotes(std::string_view text) { return text == "\"\"" ? "" : std::string(text); }

TEST_F(ConfigTest, TableHasTheKeysAndDefaultsOfTheInterface) {
  std::map<std::string, std::string> example = InterfaceExample();
  ASSERT_GT(example.size(), 60u);
  // Examples there, with no default here: a run must name its model, data and length itself.
  const std::map<std::string, std::string> no_default = {
      {"model.name", ""}, {"dataset.name", ""}, {"training.num_steps", "0"}};
  // Named there only in words.
  example.try_emplace("training.num_epochs", "0");
  example.try_emplace("training.warmup_steps", "0");
  for (const auto& [key, value] : no_default) example[key] = value;
  std::map<std::string, std::string> table;
  for (const Option& option : Options()) {
    table[std::string(option.key)] = WithoutQuotes(option.default_text);
  }
  EXPECT_EQ(table, example);
}

TEST_F(ConfigTest, DefaultsAreTheTablesButForWhatIsNotBuilt) {
  const Config config = Load(kMinimal);
  EXPECT_EQ(config.model.name, "models/tiny");
  EXPECT_EQ(config.model.device, "auto");
  EXPECT_EQ(config.model.dtype, "bfloat16");
  EXPECT_THAT(config.dataset.name, ElementsAre("gsm8k"));
  EXPECT_EQ(config.dataset.max_seq_len, 1024);
  EXPECT_TRUE(config.dataset.packing);
  EXPECT_FALSE(config.dataset.train_on_prompt);
  EXPECT_EQ(config.training.batch_size, 72);
  EXPECT_EQ(config.training.batch_tokens, 0);
  EXPECT_EQ(config.training.num_steps, 10);
  EXPECT_EQ(config.training.learning_rate, 1e-5);
  EXPECT_EQ(config.training.warmup_ratio, 0.03);
  EXPECT_EQ(config.training.seed, 42);
  EXPECT_FALSE(config.training.deterministic.has_value());
  EXPECT_EQ(config.training.output_dir, "runs/my-run");
  EXPECT_EQ(config.optimizer.type, "adamw");
  EXPECT_EQ(config.optimizer.eps, 1e-8);
  EXPECT_EQ(config.optimizer.clip, "exact");
  EXPECT_EQ(config.memory.device_memory_gb, 70);
  EXPECT_FALSE(config.memory.host_memory_gb.has_value());
  EXPECT_EQ(config.memory.checkpoint_interval, 4);
  EXPECT_FALSE(config.memory.passes.has_value());
  EXPECT_FALSE(config.hardware.throttle);
  EXPECT_TRUE(config.eval.dataset.empty());
  EXPECT_EQ(std::get<double>(config.eval.every), 0.1);
  EXPECT_EQ(config.logging.wandb, "off");
  EXPECT_TRUE(config.logging.trace_steps.empty());

  EXPECT_EQ(config.memory.schedule, "solve");
  EXPECT_EQ(config.training.save_every, 0);
  EXPECT_EQ(config.training.keep_last, 0);
  EXPECT_EQ(config.training.resume, "never");
  EXPECT_EQ(
      notes_,
      "note: of the defaults, checkpoints are not built yet: training.save_every is 0 instead "
      "of 500, training.keep_last is 0 instead of 2, training.resume is never instead of auto\n");
}

TEST_F(ConfigTest, NothingToNoteWhenGiven) {
  Load(kMinimal, {"memory.schedule=resident", "training.save_every=0", "training.keep_last=0",
                  "training.resume=never"});
  EXPECT_THAT(notes_, IsEmpty());
}

TEST_F(ConfigTest, ReadsEveryKindOfValue) {
  const Config config = Load(R"(
model: {name: "a: b #c", device: cpu, dtype: float32}
dataset:
  name: [one, 'two']
  max_seq_len: 64
  packing: FALSE
training:
  num_epochs: 3
  batch_tokens: 4096
  learning_rate: 3e-4
  seed: 9223372036854775807
  deterministic: true
  warmup_steps: 5
memory:
  host_memory_gb: 24.5
  passes: 2
  micro_batch_tokens: 64
  schedule: plans/a.json
hardware:
  throttle: true
  h2d_gbps: 12
eval:      # a section of nothing but comments
logging:
  trace_steps:
    - 1
    - 20
optimizer: {clip: off, update: device}
)");
  EXPECT_EQ(config.model.name, "a: b #c");
  EXPECT_EQ(config.model.device, "cpu");
  EXPECT_THAT(config.dataset.name, ElementsAre("one", "two"));
  EXPECT_FALSE(config.dataset.packing);
  EXPECT_EQ(config.training.num_epochs, 3);
  EXPECT_EQ(config.training.num_steps, 0);
  EXPECT_EQ(config.training.batch_tokens, 4096);
  EXPECT_EQ(config.training.batch_size, 0);
  EXPECT_EQ(config.training.learning_rate, 3e-4);
  EXPECT_EQ(config.training.seed, INT64_MAX);
  EXPECT_EQ(config.training.deterministic, true);
  EXPECT_EQ(config.training.warmup_steps, 5);
  EXPECT_EQ(config.training.warmup_ratio, 0);
  EXPECT_EQ(config.memory.host_memory_gb, 24.5);
  EXPECT_EQ(config.memory.passes, 2);
  EXPECT_EQ(config.memory.schedule, "plans/a.json");
  EXPECT_TRUE(config.hardware.throttle);
  EXPECT_EQ(config.hardware.h2d_gbps, 12);
  EXPECT_THAT(config.logging.trace_steps, ElementsAre(1, 20));
  EXPECT_EQ(config.optimizer.clip, "off");
}

TEST_F(ConfigTest, StepsAndEpochsBetweenEvaluationsAreToldApart) {
  EXPECT_EQ(std::get<int64_t>(Load(kMinimal, {"eval.every=50"}).eval.every), 50);
  EXPECT_EQ(std::get<double>(Load(kMinimal, {"eval.every=1.0"}).eval.every), 1.0);
}

TEST_F(ConfigTest, OverridesGoBeforeTheFileAndTheLastBeforeOthers) {
  const Config config =
      Load(kMinimal, {"training.num_steps=20", "dataset.name=[a, b]", "training.num_steps=30",
                      "logging.trace_steps=[2, 3]", "model.init=random"});
  EXPECT_EQ(config.training.num_steps, 30);
  EXPECT_THAT(config.dataset.name, ElementsAre("a", "b"));
  EXPECT_THAT(config.logging.trace_steps, ElementsAre(2, 3));
  EXPECT_EQ(config.model.init, "random");
  EXPECT_EQ(config.Place("training.num_steps"), "command line: training.num_steps");
  EXPECT_EQ(config.Place("training.seed"), "training.seed");
  EXPECT_EQ(Local(config.Place("model.name")), "run.yaml:2: model.name");
  EXPECT_TRUE(config.Given("model.name"));
  EXPECT_FALSE(config.Given("training.seed"));
}

TEST_F(ConfigTest, AnEmptyOverrideTakesAValueBack) {
  const Config config = Load(kMinimal, {"dataset.name=", "dataset.path=a.txt"});
  EXPECT_THAT(config.dataset.name, IsEmpty());
  EXPECT_EQ(config.dataset.path, "a.txt");
}

TEST_F(ConfigTest, WithoutAFile) {
  const std::vector<std::string> overrides = {"training.batch_size=8", "model.init=random"};
  const Config config = ConfigFromOverrides(overrides);
  EXPECT_EQ(config.training.batch_size, 8);
  EXPECT_EQ(config.training.num_steps, 0);
  EXPECT_EQ(config.memory.schedule, "solve");
  EXPECT_THAT(config.model.name, IsEmpty());
  try {
    const std::vector<std::string> wrong = {"training.batch_size=0"};
    ConfigFromOverrides(wrong, "bench");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "bench: training.batch_size: is 0, and training.batch_tokens is, too; set one of "
                 "them above 0");
  }
}

TEST_F(ConfigTest, UpstreamSpellings) {
  const Config config = Load(R"(
model: {name: m, attn_implementation: sdpa, trust_remote_code: true}
dataset: {name: gsm8k}
training: {num_steps: 10, eval_every: 0.5, fast_grad_clip: true}
memory: {num_grad_slabs: 12, nvme_activation_gb: 0, lazy_nvme_prefetch_distance: 2}
lazy_nvme_mode: auto
optimizer: {type: deepspeed_adam}
)");
  EXPECT_EQ(std::get<double>(config.eval.every), 0.5);
  EXPECT_EQ(config.optimizer.clip, "exact");
  EXPECT_EQ(config.memory.nvme_gb, 0);
  EXPECT_EQ(config.optimizer.type, "adamw");
  EXPECT_EQ(config.optimizer.moments, "fp32");
  EXPECT_EQ(config.optimizer.update, "host");
  for (const char* note : {
           "run.yaml:2: model.attn_implementation: is ignored; nothing here depends on it",
           "run.yaml:2: model.trust_remote_code: is ignored",
           "run.yaml:4: training.eval_every: is taken as eval.every",
           "run.yaml:4: eval.every (given as training.eval_every): has no effect",
           "run.yaml:4: training.fast_grad_clip: is taken as optimizer.clip",
           "run.yaml:5: memory.num_grad_slabs: is ignored",
           "run.yaml:5: memory.nvme_activation_gb: is taken as memory.nvme_gb",
           "run.yaml:5: memory.lazy_nvme_prefetch_distance: is ignored",
           "run.yaml:6: lazy_nvme_mode: is taken as memory.nvme_mode",
           "run.yaml:7: optimizer.type: 'deepspeed_adam' is taken as adamw with",
       }) {
    EXPECT_THAT(notes_, HasSubstr(std::string("note: ") + note));
  }
  EXPECT_THAT(notes_, HasSubstr(" with optimizer.moments fp32, optimizer.update host, where these "
                                "are not given\n"));
}

TEST_F(ConfigTest, WhatIsGivenGoesBeforeAnUpstreamOptimizer) {
  const Config config = Load(kMinimal, {"optimizer.type=cpu_adamw_8bit", "optimizer.moments=fp32"});
  EXPECT_EQ(config.optimizer.moments, "fp32");
  EXPECT_EQ(config.optimizer.update, "host");
}

TEST_F(ConfigTest, WhatHasNoEffectYetIsNoted) {
  Load(kMinimal, {"eval.samples=5", "eval.initial_fraction=0.1"});
  EXPECT_THAT(notes_,
              HasSubstr("note: command line: eval.samples: has no effect: evaluation is not "
                        "built yet\n"));
  EXPECT_THAT(notes_, Not(HasSubstr("initial_fraction")));  // the default
}

}  // namespace
}  // namespace lazytrain
