// The configuration of a run, as typed values. Keys, defaults, ranges and help stand in one table
// (options.cc), from which parsing, checks, help, docs/configuration.md and the resolved
// config.yaml come; the comments here only name what a reader of the code must know.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/file.h"

namespace lazytrain {

// No value: `auto`.
template <typename T>
using Auto = std::optional<T>;

struct ModelSettings {
  std::string name;    // a folder or a hub id
  std::string device;  // "auto", "cpu", "cuda:N"
  std::string dtype;   // "bfloat16", "float32"
  std::string init;    // "pretrained", "random"
  bool operator==(const ModelSettings&) const = default;
};

struct DatasetSettings {
  std::vector<std::string> name;  // empty: `path` instead
  std::string dataset_dir;
  std::string path;  // empty: `name` instead
  std::string text_field;
  std::string query_field;
  std::string response_field;
  std::string template_name;  // the key is dataset.template
  int64_t max_seq_len = 0;    // tokens
  bool packing = false;
  bool train_on_prompt = false;
  int64_t num_workers = 0;
  bool operator==(const DatasetSettings&) const = default;
};

struct TrainingSettings {
  int64_t batch_size = 0;    // examples a step; 0: batch_tokens decides
  int64_t batch_tokens = 0;  // tokens a step; 0: batch_size decides. Exactly one is above 0
  int64_t gradient_accumulation_steps = 0;
  int64_t num_steps = 0;   // 0: num_epochs decides
  int64_t num_epochs = 0;  // 0: num_steps decides. Both are 0 only without a configuration file
  double learning_rate = 0;
  std::string lr_scheduler;  // "constant", "linear", "cosine", "wsd"
  double warmup_ratio = 0;   // of all steps; 0 when warmup_steps decides
  int64_t warmup_steps = 0;  // 0: warmup_ratio decides
  double weight_decay = 0;
  double max_grad_norm = 0;
  int64_t seed = 0;
  Auto<bool> deterministic;
  int64_t save_every = 0;  // steps; 0: never
  int64_t keep_last = 0;   // checkpoints; 0: all
  std::string output_dir;
  std::string resume;  // "auto", "never", a checkpoint folder
  bool operator==(const TrainingSettings&) const = default;
};

struct OptimizerSettings {
  std::string type;  // "adamw"
  double beta1 = 0;
  double beta2 = 0;
  double eps = 0;
  std::string moments;  // "auto", "fp32", "8bit"
  double eight_bit_fraction = 0;
  std::string master;     // "split32", "bf16_stochastic"
  std::string clip;       // "exact", "previous", "off"
  std::string gradients;  // "auto", "bf16", "fp32", "none"
  std::string update;     // "auto", "host", "device"
  bool operator==(const OptimizerSettings&) const = default;
};

struct MemorySettings {
  double device_memory_gb = 0;  // GB are 1e9 bytes
  Auto<double> host_memory_gb;
  Auto<double> host_activation_gb;
  std::string nvme_dir;
  double nvme_gb = 0;
  std::string nvme_mode;  // "auto", "io_uring", "gds", "cpu_staging"
  std::string schedule;   // "solve", "resident", "interval", "paper", a file (*.json)
  Auto<int64_t> passes;
  std::string replan;               // "auto", "never"
  int64_t checkpoint_interval = 0;  // layers
  double solve_seconds = 0;
  Auto<int64_t> micro_batch_tokens;
  bool operator==(const MemorySettings&) const = default;
};

struct HardwareSettings {
  std::string profile;  // "auto" or a file
  Auto<double> h2d_gbps;
  Auto<double> d2h_gbps;
  Auto<double> host_gbps;
  Auto<double> nvme_read_gbps;
  Auto<double> nvme_write_gbps;
  Auto<double> gemm_tflops;
  bool throttle = false;
  bool operator==(const HardwareSettings&) const = default;
};

struct EvalSettings {
  std::vector<std::string> dataset;
  double holdout = 0;                   // fraction of the training examples
  std::variant<int64_t, double> every;  // int64_t: steps; double: epochs
  double initial_fraction = 0;
  bool exact_match = false;
  int64_t samples = 0;  // 0: all
  bool operator==(const EvalSettings&) const = default;
};

struct LoggingSettings {
  int64_t log_interval = 0;  // steps
  std::string metrics;       // file name inside output_dir
  std::string wandb;         // "off", "offline"
  std::vector<int64_t> trace_steps;
  bool operator==(const LoggingSettings&) const = default;
};

struct Config {
  ModelSettings model;
  DatasetSettings dataset;
  TrainingSettings training;
  OptimizerSettings optimizer;
  MemorySettings memory;
  HardwareSettings hardware;
  EvalSettings eval;
  LoggingSettings logging;

  // Where each key that was given stands: "run.yaml:12", or "command line".
  std::map<std::string, std::string, std::less<>> places;

  bool Given(std::string_view key) const { return places.contains(key); }
  // How a message about a key begins: "run.yaml:12: training.batch_size", or the key alone when it
  // is only the default.
  std::string Place(std::string_view key) const;

  // Same values, wherever they stood.
  bool operator==(const Config& other) const;
};

// Reads a configuration file; `overrides` ("training.batch_size=8", the value as YAML) go before
// what it says, the last one of a key before others. Defaults that stand for parts that are not
// built are replaced and told in one note; upstream spellings are understood with a note each.
// Throws Error (kUsage) "<file>:<line>: <key>: <what is wrong>; <what to do>", with "command line"
// for a place of overrides: unreadable or malformed file, unknown or repeated keys, values of the
// wrong type or range or of a part that is not built, contradictions, and what the use cannot do
// without: model.name; a training run also a data set and a length.
enum class ConfigUse { kTraining, kPlanning };
Config LoadConfig(const Path& path, std::span<const std::string> overrides = {},
                  ConfigUse use = ConfigUse::kTraining);

// A configuration without a file, for commands that need no data set and no length: the defaults
// and `overrides`, whose messages begin with `place`. Checks as LoadConfig but for what is missing.
Config ConfigFromOverrides(std::span<const std::string> overrides,
                           std::string_view place = "command line");

// All keys with their values and help, as LoadConfig reads it back to the same Config.
std::string ToYaml(const Config& config);

// All keys with defaults and help: docs/configuration.md, and plain text for --help.
std::string ConfigReference();
std::string ConfigHelp();

}  // namespace lazytrain
