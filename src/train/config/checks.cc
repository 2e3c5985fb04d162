#include "train/config/checks.h"

#include "core/error.h"

namespace lazytrain {
namespace {

// `second` above 0 takes the place of `first`.
template <typename First>
void Resolve(const Config& config, std::string_view first_key, First* first,
             std::string_view second_key, int64_t second) {
  if (second == 0) return;
  if (config.Given(first_key) && *first > 0) {
    throw UsageError("{}: is given beside {} ({}); keep one of them, or set one to 0",
                     config.Place(second_key), first_key, config.places.find(first_key)->second);
  }
  *first = 0;
}

// The first of the keys that was given, for the place of a contradiction.
std::string PlaceOfEither(const Config& config, std::string_view a, std::string_view b) {
  return config.Place(config.Given(a) || !config.Given(b) ? a : b);
}

void CheckLengths(const Config& config) {
  const int64_t longest = config.dataset.max_seq_len;
  const int64_t tokens = config.training.batch_tokens;
  if (tokens > 0 && tokens < longest) {
    throw UsageError(
        "{}: {} tokens are fewer than dataset.max_seq_len {}, and an example must fit in a step; "
        "raise it, or lower dataset.max_seq_len",
        config.Place("training.batch_tokens"), tokens, longest);
  }
}

}  // namespace

void ResolveAlternatives(Config* config) {
  TrainingSettings& training = config->training;
  Resolve(*config, "training.batch_size", &training.batch_size, "training.batch_tokens",
          training.batch_tokens);
  Resolve(*config, "training.num_steps", &training.num_steps, "training.num_epochs",
          training.num_epochs);
  Resolve(*config, "training.warmup_ratio", &training.warmup_ratio, "training.warmup_steps",
          training.warmup_steps);
}

void CheckTogether(const Config& config) {
  const TrainingSettings& training = config.training;
  if (training.batch_size == 0 && training.batch_tokens == 0) {
    throw UsageError("{}: is 0, and training.batch_tokens is, too; set one of them above 0",
                     config.Place("training.batch_size"));
  }
  if (training.num_steps > 0 && training.warmup_steps > training.num_steps) {
    throw UsageError("{}: {} steps are more than training.num_steps {}; lower it",
                     config.Place("training.warmup_steps"), training.warmup_steps,
                     training.num_steps);
  }
  CheckLengths(config);
  if (!config.dataset.name.empty() && !config.dataset.path.empty()) {
    throw UsageError("{}: is given beside dataset.name ({}); keep one of them",
                     config.Place("dataset.path"), config.places.find("dataset.name")->second);
  }
  if (config.model.dtype == "float32" && config.optimizer.gradients == "bf16") {
    throw UsageError(
        "{}: bf16 cannot go with model.dtype float32, which means fp32 gradients, too; give auto "
        "or fp32, or model.dtype bfloat16",
        PlaceOfEither(config, "optimizer.gradients", "model.dtype"));
  }
  const MemorySettings& memory = config.memory;
  if (memory.host_memory_gb && memory.host_activation_gb &&
      *memory.host_activation_gb > *memory.host_memory_gb) {
    throw UsageError("{}: {} GB are more than memory.host_memory_gb {}; lower it",
                     config.Place("memory.host_activation_gb"), *memory.host_activation_gb,
                     *memory.host_memory_gb);
  }
}

void CheckComplete(const Config& config, std::string_view file, ConfigUse use) {
  const auto place = [&](std::string_view key) {
    return config.Given(key) ? config.Place(key) : fmt::format("{}: {}", file, key);
  };
  if (config.model.name.empty()) {
    throw UsageError("{}: is missing; set it to a model folder or a hub id", place("model.name"));
  }
  if (use == ConfigUse::kPlanning) return;
  if (config.dataset.name.empty() && config.dataset.path.empty()) {
    throw UsageError(
        "{}: is missing; set it to a name from dataset_info.json, or dataset.path to a file or "
        "folder",
        place("dataset.name"));
  }
  if (config.training.num_steps == 0 && config.training.num_epochs == 0) {
    throw UsageError("{}: is missing; set it, or training.num_epochs, to the length of the run",
                     place("training.num_steps"));
  }
}

}  // namespace lazytrain
