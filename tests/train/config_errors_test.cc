// What is wrong with a configuration: the exact messages.
#include "config_harness.h"

namespace lazytrain {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// kMinimal and these lines, the first of which is line 7.
std::string With(const std::string& lines) { return kMinimal + lines; }

TEST_F(ConfigTest, MissingFile) {
  try {
    LoadConfig(folder_ / "none.yaml");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_status(), 2);
    EXPECT_EQ(Local(error.what()),
              "none.yaml: there is no such file; give the path of a configuration");
  }
  try {
    LoadConfig(folder_);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), folder_.string() + ": is a folder; give the path of a configuration");
  }
}

TEST_F(ConfigTest, UnknownKeysNameTheNearest) {
  EXPECT_EQ(ErrorOf(With("  batchsize: 8\n")),
            "run.yaml:7: training.batchsize: there is no such key; did you mean "
            "'training.batch_size'?");
  EXPECT_EQ(ErrorOf(With("batch_size: 8\n")),
            "run.yaml:7: batch_size: there is no such key; did you mean 'training.batch_size'?");
  EXPECT_EQ(ErrorOf(With("optimizer:\n\n  weight_decay: 0\n")),
            "run.yaml:9: optimizer.weight_decay: there is no such key; did you mean "
            "'training.weight_decay'?");
  EXPECT_EQ(ErrorOf(With("trainig:\n  seed: 1\n")),
            "run.yaml:8: trainig.seed: there is no such key; did you mean 'training.seed'?");
  EXPECT_EQ(ErrorOf(With("eval: 5\n")),
            "run.yaml:7: eval: is a section; indent its keys below it, one a line");
  EXPECT_EQ(OverrideError("model.nme=x"),
            "command line: model.nme: there is no such key; did you mean 'model.name'?");
}

TEST_F(ConfigTest, RepeatedKeys) {
  EXPECT_EQ(ErrorOf(With("  seed: 1\n  seed: 1\n")),
            "run.yaml:8: training.seed: stands at run.yaml:7 already; remove one of them");
  EXPECT_EQ(ErrorOf(With("training.num_steps: 1\n")),
            "run.yaml:7: training.num_steps: stands at run.yaml:6 already; remove one of them");
  EXPECT_EQ(ErrorOf(With("model:\n  dtype: float32\n")),
            "run.yaml:7: model: stands at run.yaml:1 already; move these keys there");
  EXPECT_EQ(
      ErrorOf(With("eval:\n  every: 1\n  eval_every: 2\n")),
      "run.yaml:9: eval.every (given as eval.eval_every): stands at run.yaml:8 already; remove "
      "one of them");
}

TEST_F(ConfigTest, MalformedYaml) {
  const std::string hint = "; look for a wrong indentation, quote or colon there or above";
  EXPECT_EQ(ErrorOf("model:\n  name: [a\ndataset: x\n"),
            "run.yaml:3: malformed YAML: end of sequence flow not found" + hint);
  EXPECT_THAT(ErrorOf("model:\n  name: 'a\n"),
              AllOf(StartsWith("run.yaml:2: malformed YAML: "), HasSubstr(hint)));
  EXPECT_THAT(ErrorOf("model:\n  name: a\n dtype: float32\n"),
              AllOf(StartsWith("run.yaml:3: malformed YAML: "), HasSubstr(hint)));
  EXPECT_THAT(ErrorOf("a: *b\n"), StartsWith("run.yaml:1: malformed YAML: "));
  EXPECT_EQ(ErrorOf("model:\n\tname: a\n"), "run.yaml:2: is indented with a tab; use spaces");
  EXPECT_EQ(ErrorOf(std::string("model:\n  name: a\0b\n", 19)),
            "run.yaml:2: has a control character (0x00); remove it, or save as UTF-8");
  EXPECT_EQ(ErrorOf("model:\n  name: a\n\x04\ntraining: 1\n"),
            "run.yaml:3: has a control character (0x04); remove it, or save as UTF-8");
  EXPECT_EQ(ErrorOf("- a\n- b\n"),
            "run.yaml:1: is no mapping of keys; write sections as in 'training:' and, indented "
            "below, 'batch_size: 8'");
  EXPECT_EQ(ErrorOf("model:\n  name: a\n---\ndataset:\n  name: b\n"),
            "run.yaml:3: begins a second YAML document, or has a stray comma or bracket; give one "
            "document");
  EXPECT_EQ(ErrorOf(",model:\n  name: a\n"),
            "run.yaml:1: begins a second YAML document, or has a stray comma or bracket; give one "
            "document");
  EXPECT_THAT(ErrorOf("model: {name: a}]\n"), StartsWith("run.yaml:1: "));
  EXPECT_EQ(ErrorOf("[a]: b\n"), "run.yaml:1: has a key that is no plain word");
  EXPECT_THAT(ErrorOf(""), StartsWith("run.yaml: model.name: is missing"));
}

TEST_F(ConfigTest, HostileNesting) {
  EXPECT_EQ(ErrorOf("a: " + std::string(100000, '[')),
            "run.yaml:1: is nested more than 50 levels deep; no key here needs that");
  EXPECT_THAT(ErrorOf("model:\n  name: " + std::string(100000, '-')), Not(HasSubstr("nested")));
  std::string dashes;
  for (int i = 0; i < 100000; ++i) dashes += "- ";
  EXPECT_THAT(ErrorOf(dashes + "a\n"), StartsWith("run.yaml:1: malformed YAML: "));
  std::string questions;
  for (int i = 0; i < 100000; ++i) questions += "? ";
  EXPECT_THAT(ErrorOf(questions + "a\n"), StartsWith("run.yaml:1: malformed YAML: "));
  std::string stairs;
  for (int i = 0; i < 1000; ++i) stairs += std::string(static_cast<size_t>(i), ' ') + "a:\n";
  EXPECT_THAT(ErrorOf(stairs), StartsWith("run.yaml:"));
  EXPECT_EQ(ErrorOf(std::string(1'000'001, '#')),
            "run.yaml: has 1000001 bytes; a configuration has at most 1000000");
  EXPECT_THAT(ErrorOf("model: &m\n  name: *m\n"), StartsWith("run.yaml:2: "));
}

TEST_F(ConfigTest, WrongTypes) {
  EXPECT_EQ(ErrorOf(With("  batch_size: many\n")),
            "run.yaml:7: training.batch_size: 'many' is not allowed; give a whole number from 0 to "
            "1000000000");
  EXPECT_EQ(ErrorOf(With("  batch_size: 1.5\n")),
            "run.yaml:7: training.batch_size: '1.5' is not allowed; give a whole number from 0 to "
            "1000000000");
  EXPECT_EQ(
      ErrorOf(With("  batch_size: \"8\"\n")),
      "run.yaml:7: training.batch_size: \"8\" is a quoted string; give a whole number from 0 to "
      "1000000000");
  EXPECT_EQ(
      ErrorOf(With("  batch_size:\n")),
      "run.yaml:7: training.batch_size: has no value; give a whole number from 0 to 1000000000");
  EXPECT_EQ(ErrorOf(With("  batch_size: [8]\n")),
            "run.yaml:7: training.batch_size: is a list; give a whole number from 0 to 1000000000");
  EXPECT_EQ(ErrorOf(With("  batch_size: {a: 8}\n")),
            "run.yaml:7: training.batch_size: is a mapping of keys; give a whole number from 0 to "
            "1000000000");
  EXPECT_EQ(
      ErrorOf(With("  learning_rate: .nan\n")),
      "run.yaml:7: training.learning_rate: '.nan' is not allowed; give a number of at least 0");
  EXPECT_EQ(OverrideError("training.learning_rate=nan"),
            "command line: training.learning_rate: 'nan' is not allowed; give a number of at least "
            "0");
  EXPECT_EQ(OverrideError("dataset.packing=yes"),
            "command line: dataset.packing: 'yes' is not allowed; give true or false");
  EXPECT_EQ(
      OverrideError("training.deterministic=maybe"),
      "command line: training.deterministic: 'maybe' is not allowed; give auto, true or false");
  EXPECT_EQ(
      OverrideError("memory.passes=some"),
      "command line: memory.passes: 'some' is not allowed; give auto or a whole number from 1 "
      "to 1000000");
  EXPECT_EQ(OverrideError("logging.trace_steps=[1, x]"),
            "command line: logging.trace_steps: 'x' is not allowed; give a list of whole numbers, "
            "each from 1 to 1000000000");
  EXPECT_EQ(OverrideError("logging.trace_steps=[1, [2]]"),
            "command line: logging.trace_steps: has an item that is no single value; give a flat "
            "list, as in [a, b]");
  EXPECT_EQ(OverrideError("dataset.name=[a, a]"),
            "command line: dataset.name: has 'a' twice; give a name or a list of names");
  EXPECT_EQ(OverrideError("dataset.name=[a, '']"),
            "command line: dataset.name: has an empty name; give a name or a list of names");
  EXPECT_EQ(
      OverrideError("model.name=\"a\\nb\""),
      "command line: model.name: has a line break or another control character; give a string");
  EXPECT_EQ(OverrideError("training.output_dir="),
            "command line: training.output_dir: '' is not allowed; give a folder");
  EXPECT_EQ(
      OverrideError("logging.metrics=a/b"),
      "command line: logging.metrics: 'a/b' is not allowed; give a file name without a folder");
}

TEST_F(ConfigTest, WrongWords) {
  EXPECT_EQ(OverrideError("training.lr_scheduler=cosin"),
            "command line: training.lr_scheduler: 'cosin' is not allowed; give constant, linear, "
            "cosine or wsd (did you mean 'cosine'?)");
  EXPECT_EQ(
      OverrideError("model.dtype=float16"),
      "command line: model.dtype: 'float16' is not allowed; give bfloat16 or float32 (did you "
      "mean 'bfloat16'?)");
  EXPECT_EQ(OverrideError("memory.schedule=resdent"),
            "command line: memory.schedule: 'resdent' is not allowed; give solve, resident, "
            "interval, paper or a schedule file (*.json) (did you mean 'resident'?)");
  EXPECT_EQ(OverrideError("model.device=0"),
            "command line: model.device: '0' is not allowed; give auto, cpu or cuda:0 (or another "
            "index)");
  EXPECT_EQ(OverrideError("optimizer.type=sgd"),
            "command line: optimizer.type: 'sgd' is not allowed; give adamw");
}

TEST_F(ConfigTest, OutOfRange) {
  EXPECT_EQ(ErrorOf(With("  batch_size: -3\n")),
            "run.yaml:7: training.batch_size: -3 is out of range; give a whole number from 0 to "
            "1000000000");
  EXPECT_EQ(OverrideError("dataset.max_seq_len=1"),
            "command line: dataset.max_seq_len: 1 is out of range; give a whole number from 2 to "
            "1000000000");
  EXPECT_EQ(OverrideError("training.warmup_ratio=1.5"),
            "command line: training.warmup_ratio: 1.5 is out of range; give a number from 0 to 1");
  EXPECT_EQ(OverrideError("memory.device_memory_gb=0"),
            "command line: memory.device_memory_gb: 0 is out of range; give a number above 0 and "
            "at most 1000000");
  EXPECT_EQ(
      OverrideError("optimizer.beta1=1"),
      "command line: optimizer.beta1: 1 is out of range; give a number of at least 0 and below "
      "1");
  EXPECT_EQ(OverrideError("optimizer.eps=0"),
            "command line: optimizer.eps: 0 is out of range; give a number above 0");
  EXPECT_EQ(OverrideError("training.seed=-1"),
            "command line: training.seed: -1 is out of range; give a whole number of at least 0");
  EXPECT_EQ(
      OverrideError("memory.micro_batch_tokens=0"),
      "command line: memory.micro_batch_tokens: 0 is out of range; give auto or a whole number "
      "from 1 to 1000000000");
  EXPECT_EQ(OverrideError("eval.every=0"),
            "command line: eval.every: 0 is out of range; give a number above 0 and at most "
            "1000000000");
}

TEST_F(ConfigTest, WhatIsNotBuiltIsRefusedWhenGiven) {
  EXPECT_EQ(OverrideError("memory.nvme_gb=100"),
            "command line: memory.nvme_gb: 100.0 cannot be used: the NVMe tier is not built yet; "
            "remove it, or give 0.0");
  EXPECT_EQ(OverrideError("nvme_activation_gb=100"),
            "command line: memory.nvme_gb (given as nvme_activation_gb): 100.0 cannot be used: the "
            "NVMe tier is not built yet; remove it, or give 0.0");
  EXPECT_EQ(
      OverrideError("optimizer.type=hybrid_adamw_8bit"),
      "command line: optimizer.eight_bit_fraction (given as optimizer.type hybrid_adamw_8bit): "
      "0.02 cannot be used: 8-bit moments are not built yet; remove it, or give 1.0");
  for (const char* setting : {"training.save_every=500",
                              "training.keep_last=2",
                              "training.resume=auto",
                              "training.resume=runs/a/step-5",
                              "dataset.template=qwen",
                              "optimizer.moments=8bit",
                              "optimizer.eight_bit_fraction=0.5",
                              "optimizer.master=bf16_stochastic",
                              "optimizer.clip=previous",
                              "optimizer.gradients=none",
                              "memory.nvme_dir=/tmp",
                              "memory.nvme_mode=io_uring",
                              "hardware.nvme_read_gbps=2",
                              "hardware.nvme_write_gbps=2",
                              "eval.dataset=gsm8k_test",
                              "eval.holdout=0.1",
                              "eval.exact_match=true",
                              "logging.wandb=offline",
                              "optimizer.type=cpu_adamw_8bit",
                              "optimizer.type=paged_adamw_8bit"}) {
    EXPECT_THAT(OverrideError(setting),
                AllOf(StartsWith("command line: "), HasSubstr(" cannot be used: "),
                      HasSubstr("not built yet; remove it, or give ")))
        << setting;
  }
}

TEST_F(ConfigTest, OneOfTwoDecides) {
  EXPECT_EQ(ErrorOf(With("  batch_size: 8\n  batch_tokens: 4096\n")),
            "run.yaml:8: training.batch_tokens: is given beside training.batch_size (run.yaml:7); "
            "keep one of them, or set one to 0");
  EXPECT_EQ(
      OverrideError("training.num_epochs=2"),
      "command line: training.num_epochs: is given beside training.num_steps (run.yaml:6); keep "
      "one of them, or set one to 0");
  EXPECT_EQ(
      ErrorOf(With("  warmup_ratio: 0.1\n  warmup_steps: 2\n")),
      "run.yaml:8: training.warmup_steps: is given beside training.warmup_ratio (run.yaml:7); "
      "keep one of them, or set one to 0");
  EXPECT_EQ(
      OverrideError("dataset.path=a.txt"),
      "command line: dataset.path: is given beside dataset.name (run.yaml:4); keep one of them");
  EXPECT_EQ(Load(kMinimal, {"training.num_epochs=2", "training.num_steps=0"}).training.num_epochs,
            2);
}

TEST_F(ConfigTest, Contradictions) {
  EXPECT_EQ(OverrideError("training.warmup_steps=11"),
            "command line: training.warmup_steps: 11 steps are more than training.num_steps 10; "
            "lower it");
  EXPECT_EQ(OverrideError("training.batch_tokens=512"),
            "command line: training.batch_tokens: 512 tokens are fewer than dataset.max_seq_len "
            "1024, and an example must fit in a step; raise it, or lower dataset.max_seq_len");
  EXPECT_THAT(
      ErrorOf(kMinimal, {"model.dtype=float32", "optimizer.gradients=bf16"}),
      StartsWith("command line: optimizer.gradients: bf16 cannot go with model.dtype float32"));
  EXPECT_EQ(ErrorOf(kMinimal, {"memory.host_memory_gb=8", "memory.host_activation_gb=9"}),
            "command line: memory.host_activation_gb: 9 GB are more than memory.host_memory_gb 8; "
            "lower it");
}

TEST_F(ConfigTest, Incomplete) {
  EXPECT_EQ(ErrorOf("training:\n  num_steps: 1\n"),
            "run.yaml: model.name: is missing; set it to a model folder or a hub id");
  EXPECT_EQ(ErrorOf("model:\n  name: \"\"\n"),
            "run.yaml:2: model.name: is missing; set it to a model folder or a hub id");
  EXPECT_EQ(ErrorOf("model:\n  name: a\n"),
            "run.yaml: dataset.name: is missing; set it to a name from dataset_info.json, or "
            "dataset.path to a file or folder");
  EXPECT_EQ(
      ErrorOf("model:\n  name: a\ndataset:\n  name: b\n"),
      "run.yaml: training.num_steps: is missing; set it, or training.num_epochs, to the length "
      "of the run");
}

TEST_F(ConfigTest, BadOverrides) {
  EXPECT_EQ(OverrideError("training.batch_size"),
            "command line: 'training.batch_size' is no setting; give key=value, as in "
            "training.batch_size=8");
  EXPECT_EQ(OverrideError("=8"),
            "command line: '=8' is no setting; give key=value, as in training.batch_size=8");
  EXPECT_THAT(OverrideError("dataset.name=[a"),
              StartsWith("command line: dataset.name: malformed YAML: "));
  EXPECT_EQ(OverrideError("training.seed={a: 1}"),
            "command line: training.seed: is a mapping of keys; give a whole number of at least 0");
  EXPECT_EQ(
      OverrideError("training.seed=" + std::string(60, '[')),
      "command line: training.seed: is nested more than 50 levels deep; no key here needs that");
}

TEST_F(ConfigTest, MessagesAreOneShortLine) {
  const std::string message = ErrorOf(With("\"a\\nb" + std::string(500, 'x') + "\": 1\n"));
  EXPECT_THAT(message, StartsWith("run.yaml:7: a?bxxx"));
  EXPECT_LT(message.size(), 300u);
  // A cut never splits a character.
  EXPECT_THAT(OverrideError("dataset.packing=x" + std::string(39, 'y') + "\xc3\xa4" +
                            std::string(38, 'z') + "\xc3\xa4\xc3\xa4"),
              HasSubstr("z...' is not allowed"));
}

}  // namespace
}  // namespace lazytrain
