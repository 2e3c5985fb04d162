#include "train/config/options.h"

namespace lazytrain {
namespace {

constexpr double kMaxCount = 1e9;  // tokens and steps fit an int32, their products an int64
constexpr double kMaxGB = 1e6;     // bytes fit an int64

constexpr Range kCount = {.low = 1, .high = kMaxCount};
constexpr Range kCountOrZero = {.low = 0, .high = kMaxCount};
constexpr Range kFraction = {.low = 0, .high = 1};
constexpr Range kBelowOne = {.low = 0, .high = 1, .high_open = true};
constexpr Range kNotNegative = {.low = 0};
constexpr Range kPositive = {.low = 0, .low_open = true};
constexpr Range kGB = {.low = 0, .high = kMaxGB, .low_open = true};
constexpr Range kGBOrZero = {.low = 0, .high = kMaxGB};

constexpr std::string_view kNoCheckpoints = "checkpoints are not built yet";
constexpr std::string_view kNoEvaluation = "evaluation is not built yet";
constexpr std::string_view kNoEightBit = "8-bit moments are not built yet";
constexpr std::string_view kNoLean = "training without an fp32 master is not built yet";
constexpr std::string_view kNoNvme = "the NVMe tier is not built yet";

bool IsCudaDevice(std::string_view text) {
  constexpr std::string_view kPrefix = "cuda:";
  if (!text.starts_with(kPrefix)) return false;
  const std::string_view index = text.substr(kPrefix.size());
  return !index.empty() && index.size() <= 3 &&
         index.find_first_not_of("0123456789") == std::string_view::npos;
}

bool IsJsonFile(std::string_view text) { return text.ends_with(".json") && text.size() > 5; }

bool IsFileName(std::string_view text) {
  return !text.empty() && text != "." && text != ".." && text.find('/') == std::string_view::npos;
}

bool IsNotEmpty(std::string_view text) { return !text.empty(); }

void AddModel(std::vector<Option>* options) {
  using S = ModelSettings;
  const auto add = [options](Option option) { options->push_back(std::move(option)); };
  add({.key = "model.name",
       .field = At<&Config::model, &S::name>(),
       .default_text = "\"\"",
       .help = "folder, or hub id; must be given"});
  add({.key = "model.device",
       .field = At<&Config::model, &S::device>(),
       .default_text = "auto",
       .help = "where to train; cpu: the virtual accelerator",
       .words = {"auto", "cpu"},
       .otherwise = "cuda:0 (or another index)",
       .is_otherwise = IsCudaDevice});
  add({.key = "model.dtype",
       .field = At<&Config::model, &S::dtype>(),
       .default_text = "bfloat16",
       .help = "of weights and activations; float32: of gradients, too",
       .words = {"bfloat16", "float32"}});
  add({.key = "model.init",
       .field = At<&Config::model, &S::init>(),
       .default_text = "pretrained",
       .help = "the weights at the start",
       .words = {"pretrained", "random"}});
}

void AddDataset(std::vector<Option>* options) {
  using S = DatasetSettings;
  const auto add = [options](Option option) { options->push_back(std::move(option)); };
  add({.key = "dataset.name",
       .field = At<&Config::dataset, &S::name>(),
       .default_text = "\"\"",
       .help = "from dataset_dir/dataset_info.json; a list mixes several; this or path must be "
               "given"});
  add({.key = "dataset.dataset_dir",
       .field = At<&Config::dataset, &S::dataset_dir>(),
       .default_text = "data",
       .help = "folder of dataset_info.json",
       .otherwise = "a folder",
       .is_otherwise = IsNotEmpty});
  add({.key = "dataset.path",
       .field = At<&Config::dataset, &S::path>(),
       .default_text = "\"\"",
       .help = "instead of name: a file or folder"});
  add({.key = "dataset.text_field",
       .field = At<&Config::dataset, &S::text_field>(),
       .default_text = "text",
       .help = "field of plain text, all of it trained; or query and response",
       .otherwise = "the name of a field",
       .is_otherwise = IsNotEmpty});
  add({.key = "dataset.query_field",
       .field = At<&Config::dataset, &S::query_field>(),
       .default_text = "query",
       .help = "field of the prompt",
       .otherwise = "the name of a field",
       .is_otherwise = IsNotEmpty});
  add({.key = "dataset.response_field",
       .field = At<&Config::dataset, &S::response_field>(),
       .default_text = "response",
       .help = "field of the answer",
       .otherwise = "the name of a field",
       .is_otherwise = IsNotEmpty});
  add({.key = "dataset.template",
       .field = At<&Config::dataset, &S::template_name>(),
       .default_text = "auto",
       .help = "chat template; auto: by the model; else its name, as qwen or llama3",
       .availability = {.built = {"auto"}, .reason = "chat templates are not built yet"}});
  add({.key = "dataset.max_seq_len",
       .field = At<&Config::dataset, &S::max_seq_len>(),
       .default_text = "1024",
       .help = "tokens of an example; longer ones are cut",
       .range = {.low = 2, .high = kMaxCount}});
  add({.key = "dataset.packing",
       .field = At<&Config::dataset, &S::packing>(),
       .default_text = "true",
       .help = "several documents in one row; attention never crosses them"});
  add({.key = "dataset.train_on_prompt",
       .field = At<&Config::dataset, &S::train_on_prompt>(),
       .default_text = "false",
       .help = "train on the prompt as well as on the answer"});
  add({.key = "dataset.num_workers",
       .field = At<&Config::dataset, &S::num_workers>(),
       .default_text = "2",
       .help = "threads that read and tokenize; 0: none beside the main one",
       .range = {.low = 0, .high = 1024}});
}

void AddBatch(std::vector<Option>* options) {
  using S = TrainingSettings;
  const auto add = [options](Option option) { options->push_back(std::move(option)); };
  add({.key = "training.batch_size",
       .field = At<&Config::training, &S::batch_size>(),
       .default_text = "72",
       .help = "examples a step, packed or not; 0 when batch_tokens is given",
       .range = kCountOrZero});
  add({.key = "training.batch_tokens",
       .field = At<&Config::training, &S::batch_tokens>(),
       .default_text = "0",
       .help = "instead of batch_size: tokens a step",
       .range = kCountOrZero});
  add({.key = "training.gradient_accumulation_steps",
       .field = At<&Config::training, &S::gradient_accumulation_steps>(),
       .default_text = "1",
       .help = "multiplies the examples or tokens of a step",
       .range = {.low = 1, .high = 1e6}});
  add({.key = "training.num_steps",
       .field = At<&Config::training, &S::num_steps>(),
       .default_text = "0",
       .help = "length of the run; this or num_epochs must be given",
       .range = kCountOrZero});
  add({.key = "training.num_epochs",
       .field = At<&Config::training, &S::num_epochs>(),
       .default_text = "0",
       .help = "instead of num_steps: passes over the data",
       .range = {.low = 0, .high = 1e6}});
}

void AddTraining(std::vector<Option>* options) {
  using S = TrainingSettings;
  const auto add = [options](Option option) { options->push_back(std::move(option)); };
  add({.key = "training.learning_rate",
       .field = At<&Config::training, &S::learning_rate>(),
       .default_text = "1.0e-5",
       .help = "the highest of the schedule",
       .range = kNotNegative});
  add({.key = "training.lr_scheduler",
       .field = At<&Config::training, &S::lr_scheduler>(),
       .default_text = "cosine",
       .help = "how the learning rate falls after warm-up; wsd: over the last tenth of the steps",
       .words = {"constant", "linear", "cosine", "wsd"}});
  add({.key = "training.warmup_ratio",
       .field = At<&Config::training, &S::warmup_ratio>(),
       .default_text = "0.03",
       .help = "share of the steps in which the learning rate rises",
       .range = kFraction});
  add({.key = "training.warmup_steps",
       .field = At<&Config::training, &S::warmup_steps>(),
       .default_text = "0",
       .help = "instead of warmup_ratio: a number of steps",
       .range = kCountOrZero});
  add({.key = "training.weight_decay",
       .field = At<&Config::training, &S::weight_decay>(),
       .default_text = "0.01",
       .help = "decoupled, as in AdamW",
       .range = kNotNegative});
  add({.key = "training.max_grad_norm",
       .field = At<&Config::training, &S::max_grad_norm>(),
       .default_text = "1.0",
       .help = "global norm that gradients are clipped to; 0: none",
       .range = kNotNegative});
  add({.key = "training.seed",
       .field = At<&Config::training, &S::seed>(),
       .default_text = "42",
       .help = "of the order of examples and of random weights",
       .range = kNotNegative});
  add({.key = "training.deterministic",
       .field = At<&Config::training, &S::deterministic>(),
       .default_text = "auto",
       .help = "bit-identical from run to run and under every schedule"});
  add({.key = "training.save_every",
       .field = At<&Config::training, &S::save_every>(),
       .default_text = "500",
       .help = "steps between checkpoints; 0: none",
       .range = kCountOrZero,
       .availability = {.built = {"0"}, .reason = kNoCheckpoints, .meanwhile = "0"}});
  add({.key = "training.keep_last",
       .field = At<&Config::training, &S::keep_last>(),
       .default_text = "2",
       .help = "checkpoints that stay; 0: all",
       .range = kCountOrZero,
       .availability = {.built = {"0"}, .reason = kNoCheckpoints, .meanwhile = "0"}});
  add({.key = "training.output_dir",
       .field = At<&Config::training, &S::output_dir>(),
       .default_text = "runs/my-run",
       .help = "folder of all files of the run",
       .otherwise = "a folder",
       .is_otherwise = IsNotEmpty});
  add({.key = "training.resume",
       .field = At<&Config::training, &S::resume>(),
       .default_text = "auto",
       .help = "auto: from the last checkpoint, if there is one",
       .words = {"auto", "never"},
       .otherwise = "a checkpoint folder",
       .is_otherwise = IsNotEmpty,
       .availability = {.built = {"never"}, .reason = kNoCheckpoints, .meanwhile = "never"}});
}

void AddOptimizer(std::vector<Option>* options) {
  using S = OptimizerSettings;
  const auto add = [options](Option option) { options->push_back(std::move(option)); };
  add({.key = "optimizer.type",
       .field = At<&Config::optimizer, &S::type>(),
       .default_text = "adamw",
       .help = "upstream names stand for settings below",
       .words = {"adamw"}});
  add({.key = "optimizer.beta1",
       .field = At<&Config::optimizer, &S::beta1>(),
       .default_text = "0.9",
       .help = "decay of the first moment",
       .range = kBelowOne});
  add({.key = "optimizer.beta2",
       .field = At<&Config::optimizer, &S::beta2>(),
       .default_text = "0.999",
       .help = "decay of the second moment",
       .range = kBelowOne});
  add({.key = "optimizer.eps",
       .field = At<&Config::optimizer, &S::eps>(),
       .default_text = "1.0e-8",
       .help = "added to the root of the second moment",
       .range = kPositive});
  add({.key = "optimizer.moments",
       .field = At<&Config::optimizer, &S::moments>(),
       .default_text = "auto",
       .help = "auto: fp32 where the host has room, else 8bit",
       .words = {"auto", "fp32", "8bit"},
       .availability = {.not_built = {"8bit"}, .reason = kNoEightBit}});
  add({.key = "optimizer.eight_bit_fraction",
       .field = At<&Config::optimizer, &S::eight_bit_fraction>(),
       .default_text = "1.0",
       .help = "share of the parameters whose moments are 8-bit, with 8bit",
       .range = kFraction,
       .availability = {.built = {"1.0"}, .reason = kNoEightBit}});
  add({.key = "optimizer.master",
       .field = At<&Config::optimizer, &S::master>(),
       .default_text = "split32",
       .help = "master weights; split32: exact fp32",
       .words = {"split32", "bf16_stochastic"},
       .availability = {.not_built = {"bf16_stochastic"}, .reason = kNoLean}});
  add({.key = "optimizer.clip",
       .field = At<&Config::optimizer, &S::clip>(),
       .default_text = "exact",
       .help = "by the norm of this step, of the step before, or not at all",
       .words = {"exact", "previous", "off"},
       .availability = {.not_built = {"previous"},
                        .reason = "clipping by the norm of the step before is not built yet"}});
  add({.key = "optimizer.gradients",
       .field = At<&Config::optimizer, &S::gradients>(),
       .default_text = "auto",
       .help = "how they are stored; none: with bf16_stochastic; auto: fp32 with dtype float32, "
               "else bf16",
       .words = {"auto", "bf16", "fp32", "none"},
       .availability = {.not_built = {"none"}, .reason = kNoLean}});
  add({.key = "optimizer.update",
       .field = At<&Config::optimizer, &S::update>(),
       .default_text = "auto",
       .help = "where updates run; auto: by unit, as planned",
       .words = {"auto", "host", "device"}});
}

void AddMemory(std::vector<Option>* options) {
  using S = MemorySettings;
  const auto add = [options](Option option) { options->push_back(std::move(option)); };
  add({.key = "memory.device_memory_gb",
       .field = At<&Config::memory, &S::device_memory_gb>(),
       .default_text = "70",
       .help = "hard cap of everything this process takes on the device",
       .range = kGB});
  add({.key = "memory.host_memory_gb",
       .field = At<&Config::memory, &S::host_memory_gb>(),
       .default_text = "auto",
       .help = "a number overrides what the system reports",
       .range = kGB});
  add({.key = "memory.host_activation_gb",
       .field = At<&Config::memory, &S::host_activation_gb>(),
       .default_text = "auto",
       .help = "share of the host's memory for activations",
       .range = kGBOrZero});
  add({.key = "memory.nvme_dir",
       .field = At<&Config::memory, &S::nvme_dir>(),
       .default_text = "\"\"",
       .help = "folder of spill files",
       .availability = {.built = {"\"\""}, .reason = kNoNvme}});
  add({.key = "memory.nvme_gb",
       .field = At<&Config::memory, &S::nvme_gb>(),
       .default_text = "0",
       .help = "room for them; 0: none",
       .range = kGBOrZero,
       .availability = {.built = {"0.0"}, .reason = kNoNvme}});
  add({.key = "memory.nvme_mode",
       .field = At<&Config::memory, &S::nvme_mode>(),
       .default_text = "auto",
       .help = "how they are read and written",
       .words = {"auto", "io_uring", "gds", "cpu_staging"},
       .availability = {.built = {"auto"}, .reason = kNoNvme}});
  add({.key = "memory.schedule",
       .field = At<&Config::memory, &S::schedule>(),
       .default_text = "solve",
       .help = "what is kept where, and what is recomputed",
       .words = {"solve", "resident", "interval", "paper"},
       .otherwise = "a schedule file (*.json)",
       .is_otherwise = IsJsonFile});
  add({.key = "memory.passes",
       .field = At<&Config::memory, &S::passes>(),
       .default_text = "auto",
       .help = "parts of a step, each of which streams the weights once forward, once backward",
       .range = {.low = 1, .high = 1e6}});
  add({.key = "memory.replan",
       .field = At<&Config::memory, &S::replan>(),
       .default_text = "auto",
       .help = "plan again when measurements differ from what was believed",
       .words = {"auto", "never"}});
  add({.key = "memory.checkpoint_interval",
       .field = At<&Config::memory, &S::checkpoint_interval>(),
       .default_text = "4",
       .help = "layers, for the schedule interval: the MegaTrain-compatible baseline",
       .range = {.low = 1, .high = 1e6}});
  add({.key = "memory.solve_seconds",
       .field = At<&Config::memory, &S::solve_seconds>(),
       .default_text = "20",
       .help = "for the whole search",
       .range = kPositive});
  add({.key = "memory.micro_batch_tokens",
       .field = At<&Config::memory, &S::micro_batch_tokens>(),
       .default_text = "auto",
       .help = "tokens that go through a kernel at once; longer documents pass in chunks",
       .range = kCount});
}

void AddHardware(std::vector<Option>* options) {
  using S = HardwareSettings;
  const auto add = [options](Option option) { options->push_back(std::move(option)); };
  add({.key = "hardware.profile",
       .field = At<&Config::hardware, &S::profile>(),
       .default_text = "auto",
       .help = "auto: of this machine; or a file from `lazytrain profile`",
       .words = {"auto"},
       .otherwise = "a profile file",
       .is_otherwise = IsNotEmpty});
  add({.key = "hardware.h2d_gbps",
       .field = At<&Config::hardware, &S::h2d_gbps>(),
       .default_text = "auto",
       .help = "host to device, GB/s",
       .range = kPositive});
  add({.key = "hardware.d2h_gbps",
       .field = At<&Config::hardware, &S::d2h_gbps>(),
       .default_text = "auto",
       .help = "device to host, GB/s",
       .range = kPositive});
  add({.key = "hardware.host_gbps",
       .field = At<&Config::hardware, &S::host_gbps>(),
       .default_text = "auto",
       .help = "host memory, GB/s",
       .range = kPositive});
  add({.key = "hardware.nvme_read_gbps",
       .field = At<&Config::hardware, &S::nvme_read_gbps>(),
       .default_text = "auto",
       .help = "from NVMe, GB/s",
       .range = kPositive,
       .availability = {.built = {"auto"}, .reason = kNoNvme}});
  add({.key = "hardware.nvme_write_gbps",
       .field = At<&Config::hardware, &S::nvme_write_gbps>(),
       .default_text = "auto",
       .help = "to NVMe, GB/s",
       .range = kPositive,
       .availability = {.built = {"auto"}, .reason = kNoNvme}});
  add({.key = "hardware.gemm_tflops",
       .field = At<&Config::hardware, &S::gemm_tflops>(),
       .default_text = "auto",
       .help = "matrix products, TFLOP/s",
       .range = kPositive});
  add({.key = "hardware.throttle",
       .field = At<&Config::hardware, &S::throttle>(),
       .default_text = "false",
       .help = "virtual accelerator only: make copies and host updates as slow as these say"});
}

void AddEval(std::vector<Option>* options) {
  using S = EvalSettings;
  const auto add = [options](Option option) { options->push_back(std::move(option)); };
  add({.key = "eval.dataset",
       .field = At<&Config::eval, &S::dataset>(),
       .default_text = "\"\"",
       .help = "as dataset.name; or holdout",
       .availability = {.built = {"\"\""}, .reason = kNoEvaluation}});
  add({.key = "eval.holdout",
       .field = At<&Config::eval, &S::holdout>(),
       .default_text = "0.0",
       .help = "a fraction of the training examples",
       .range = kBelowOne,
       .availability = {.built = {"0.0"}, .reason = kNoEvaluation}});
  add({.key = "eval.every",
       .field = At<&Config::eval, &S::every>(),
       .default_text = "0.1",
       .help = "epochs (with a decimal point) or steps (a whole number)",
       .range = {.low = 0, .high = kMaxCount, .low_open = true},
       .availability = {.reason = kNoEvaluation, .without_effect = true}});
  add({.key = "eval.initial_fraction",
       .field = At<&Config::eval, &S::initial_fraction>(),
       .default_text = "0.1",
       .help = "share of the examples in the evaluation before the first step",
       .range = kFraction,
       .availability = {.reason = kNoEvaluation, .without_effect = true}});
  add({.key = "eval.exact_match",
       .field = At<&Config::eval, &S::exact_match>(),
       .default_text = "false",
       .help = "by generation; answer format by the data set",
       .availability = {.built = {"false"}, .reason = kNoEvaluation}});
  add({.key = "eval.samples",
       .field = At<&Config::eval, &S::samples>(),
       .default_text = "0",
       .help = "examples; 0: all",
       .range = kCountOrZero,
       .availability = {.reason = kNoEvaluation, .without_effect = true}});
}

void AddLogging(std::vector<Option>* options) {
  using S = LoggingSettings;
  const auto add = [options](Option option) { options->push_back(std::move(option)); };
  add({.key = "logging.log_interval",
       .field = At<&Config::logging, &S::log_interval>(),
       .default_text = "1",
       .help = "steps between lines",
       .range = kCount});
  add({.key = "logging.metrics",
       .field = At<&Config::logging, &S::metrics>(),
       .default_text = "metrics.jsonl",
       .help = "one JSON object a step, in output_dir",
       .otherwise = "a file name without a folder",
       .is_otherwise = IsFileName});
  add({.key = "logging.wandb",
       .field = At<&Config::logging, &S::wandb>(),
       .default_text = "off",
       .help = "Weights & Biases files in output_dir",
       .words = {"off", "offline"},
       .availability = {.not_built = {"offline"},
                        .reason = "the Weights & Biases logger is not built yet"}});
  add({.key = "logging.trace_steps",
       .field = At<&Config::logging, &S::trace_steps>(),
       .default_text = "[]",
       .help = "steps whose measured timeline is written as a Chrome/Perfetto trace",
       .range = kCount});
}

}  // namespace

const std::vector<Option>& Options() {
  static const std::vector<Option> options = [] {
    std::vector<Option> all;
    for (const auto add : {AddModel, AddDataset, AddBatch, AddTraining, AddOptimizer, AddMemory,
                           AddHardware, AddEval, AddLogging}) {
      add(&all);
    }
    return all;
  }();
  return options;
}

}  // namespace lazytrain
