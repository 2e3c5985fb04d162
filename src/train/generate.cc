#include "train/generate.h"

#include <algorithm>
#include <memory>

#include "core/error.h"
#include "core/units.h"
#include "data/examples.h"
#include "engine/training_engine.h"
#include "model/continuation.h"
#include "model/family.h"
#include "train/device_choice.h"
#include "train/model_folder.h"

namespace lazytrain {
namespace {

std::vector<int32_t> EncodePrompt(const FolderEncoder& encoder, const std::string& prompt) {
  std::vector<int32_t> ids = EncodeStartOnce(encoder, prompt);
  if (ids.empty()) throw UsageError("--prompt: no tokens in it; give some text");
  return ids;
}

// The most tokens of a run at once: the prompt, or, where the states of a shorter text cannot be
// continued (Continues), the longest text that has to be computed anew.
int64_t PrefillTokens(const ModelGraph& model, int64_t prompt, int64_t context) {
  int64_t tokens = std::min(prompt, context);
  for (int64_t total = tokens + 1; total <= context; ++total) {
    if (!Continues(model.generation, total - 1, total)) tokens = total;
  }
  return tokens;
}

std::unique_ptr<ProgramSet> CompileFor(const HubConfig& hub, DType dtype, int64_t prompt,
                                       const GenerateOptions& options, const Device& device) {
  GraphOptions graph;
  graph.dtype = dtype;
  ModelGraph model = BuildModelGraph(hub, graph);
  Capacity capacity;
  capacity.context =
      std::min(prompt + std::min<int64_t>(options.max_new_tokens, INT32_MAX), model.max_positions);
  capacity.micro_batch_tokens = PrefillTokens(model, prompt, capacity.context);
  capacity.longest_document = capacity.micro_batch_tokens;
  if (capacity.micro_batch_tokens > kTokensAtOnce) capacity.chunk_tokens = kTokensAtOnce;
  capacity.documents = 1;
  capacity.selected = 1;
  Schedule resident = ResidentSchedule(model, capacity);
  Schedule streamed = IntervalSchedule(model, capacity, 1);
  ProgramSetOptions programs;
  programs.prefill = capacity;
  programs.kernels = &KernelsFor(device);
  auto compiled = std::make_unique<ProgramSet>(model, std::move(resident), programs);
  if (options.device_memory_gb <= 0) return compiled;
  const int64_t cap = BytesFromGB(options.device_memory_gb);
  if (compiled->PeakBytes(kDeviceSpace) <= cap) return compiled;
  compiled = std::make_unique<ProgramSet>(std::move(model), std::move(streamed), programs);
  if (compiled->PeakBytes(kDeviceSpace) <= cap) return compiled;
  throw UsageError("--device-memory-gb: {} GB are too little; {:.6f} GB would do",
                   options.device_memory_gb, RoundUpToGB(compiled->PeakBytes(kDeviceSpace)));
}

}  // namespace

Generated Generate(const GenerateOptions& options) {
  if (options.max_new_tokens < 1) {
    throw UsageError("--max-new-tokens: is {}; it has to be 1 or more", options.max_new_tokens);
  }
  if (!(options.device_memory_gb >= 0 && options.device_memory_gb <= 1e6)) {
    throw UsageError("--device-memory-gb: is {}; it has to be from 0 (no cap) to 1000000",
                     options.device_memory_gb);
  }
  const Path folder = FindModelFolder(options.model, "--model");
  const HubConfig hub = HubConfig::FromFolder(folder);
  const TokenizerFolder tokenizer = LoadTokenizer(folder);
  const FolderEncoder encoder(tokenizer);
  Generated result;
  result.prompt_ids = EncodePrompt(encoder, options.prompt);
  const auto prompt_size = static_cast<int64_t>(result.prompt_ids.size());

  const Checkpoint checkpoint(folder);
  const std::string stored = hub.StringOr("dtype", hub.StringOr("torch_dtype", "float32"));
  const DType dtype = stored == "bfloat16" ? DType::kBF16 : DType::kF32;
  const std::unique_ptr<Device> device = OpenDevice(options.device, false);
  const std::unique_ptr<ProgramSet> programs =
      CompileFor(hub, dtype, prompt_size, options, *device);
  CheckNothingLeftOver(checkpoint, programs->model());
  const int64_t context = programs->prefill().capacity.context;
  if (prompt_size >= context + 1) {
    throw UsageError("--prompt: has {} tokens; the model's context is {}; shorten it", prompt_size,
                     context);
  }
  TrainingEngine engine(*device, *programs, CostModel(), {});
  engine.LoadWeights(
      [&](const UnitSpec& unit, const UnitMemory& memory) { ReadUnit(checkpoint, unit, memory); });
  const std::vector<int32_t> ends = EndTokens(hub, tokenizer);
  std::vector<int32_t> ids = result.prompt_ids;
  int64_t cached = 0;
  for (int64_t i = 0; i < options.max_new_tokens; ++i) {
    if (static_cast<int64_t>(ids.size()) > context) break;
    const auto size = static_cast<int64_t>(ids.size());
    if (!Continues(programs->model().generation, cached, size)) cached = 0;
    const std::vector<float> logits =
        engine.Continue(std::span(ids).subspan(static_cast<size_t>(cached)), cached);
    cached = size;
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    const auto next = static_cast<int32_t>(best);
    if (std::find(ends.begin(), ends.end(), next) != ends.end()) break;
    ids.push_back(next);
    result.new_ids.push_back(next);
  }
  result.text = tokenizer.tokenizer.Decode(ids, false);
  return result;
}

}  // namespace lazytrain
