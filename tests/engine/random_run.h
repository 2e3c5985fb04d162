// Small random models, batches and schedules, and what a few steps on them give.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/hash.h"
#include "core/random.h"
#include "device/cpu/virtual_accelerator.h"
#include "engine/training_engine.h"
#include "model/family.h"
#include "train/step.h"

namespace lazytrain::testing {

struct RandomSetup {
  Json config;
  DType dtype = DType::kF32;
  DType gradient_dtype = DType::kF32;
  Capacity capacity;
  int64_t head_chunk_rows = 16;
  std::vector<std::vector<MicroBatch>> steps;
  uint64_t seed = 0;

  ModelGraph Graph() const {
    GraphOptions options;
    options.dtype = dtype;
    options.head_chunk_rows = head_chunk_rows;
    return BuildModelGraph(HubConfig(config, "config"), options);
  }
};

inline std::vector<MicroBatch> RandomStep(Random& random, int64_t vocab, int64_t documents,
                                          const Capacity& capacity) {
  std::vector<std::vector<int32_t>> ids(static_cast<size_t>(documents));
  std::vector<std::vector<int32_t>> labels(ids.size());
  std::vector<DocumentView> views;
  for (size_t d = 0; d < ids.size(); ++d) {
    for (int64_t i = random.Between(2, capacity.longest_document); i > 0; --i) {
      ids[d].push_back(static_cast<int32_t>(random.Below(static_cast<uint64_t>(vocab))));
      labels[d].push_back(random.Below(4) == 0 ? -100 : ids[d].back());
    }
    labels[d].back() = ids[d].back();
    views.push_back({ids[d], labels[d]});
  }
  return MakeStep(views, capacity);
}

inline RandomSetup MakeRandomSetup(Random& random) {
  RandomSetup setup;
  setup.seed = random.Next();
  const int64_t head_dim = 2 * random.Between(2, 6);
  const int64_t kv_heads = random.Between(1, 2);
  const std::vector<std::string> types = {"llama", "qwen2",   "qwen3", "mistral", "phi3",    "glm",
                                          "glm4",  "smollm3", "olmo2", "olmo3",   "baichuan"};
  setup.config = {{"model_type", types[random.Below(types.size())]},
                  {"vocab_size", random.Between(20, 90)},
                  {"hidden_size", 8 * random.Between(1, 4)},
                  {"intermediate_size", 4 * random.Between(2, 10)},
                  {"num_hidden_layers", random.Between(1, 6)},
                  {"num_attention_heads", kv_heads * random.Between(1, 3)},
                  {"num_key_value_heads", kv_heads},
                  {"head_dim", head_dim},
                  {"max_position_embeddings", 64},
                  {"rms_norm_eps", 1e-6},
                  {"partial_rotary_factor", 1.0},
                  {"sliding_window", random.Between(2, 20)},
                  {"tie_word_embeddings", random.Below(2) == 0}};
  if (setup.config["model_type"] == "baichuan") {
    // The form with linear biases.
    setup.config.erase("max_position_embeddings");
    setup.config["model_max_length"] = 64;
  } else if (random.Below(4) == 0) {
    // Most documents have frequencies of their own.
    setup.config["max_position_embeddings"] = 8;
    setup.config["rope_scaling"] = {{"type", "dynamic"}, {"factor", 8.0}};
  }
  setup.dtype = random.Below(3) == 0 ? DType::kBF16 : DType::kF32;
  setup.gradient_dtype =
      setup.dtype == DType::kBF16 && random.Below(2) == 0 ? DType::kBF16 : DType::kF32;
  setup.head_chunk_rows = random.Between(3, 30);
  setup.capacity.longest_document = random.Between(4, 20);
  setup.capacity.micro_batch_tokens = setup.capacity.longest_document + random.Between(0, 12);
  setup.capacity.documents = setup.capacity.micro_batch_tokens;
  if (random.Below(3) == 0) setup.capacity.chunk_tokens = random.Between(2, 12);
  const int64_t documents = random.Between(1, 8);
  setup.capacity.micro_batches = MaxMicroBatches(documents, 0, setup.capacity.longest_document,
                                                 setup.capacity.micro_batch_tokens);
  const auto vocab = setup.config["vocab_size"].get<int64_t>();
  for (int s = 0; s < 3; ++s) {
    setup.steps.push_back(RandomStep(random, vocab, random.Between(1, documents), setup.capacity));
  }
  return setup;
}

// Any mixture of tiers, residencies, update places and, unless fixed, passes.
inline Schedule RandomSchedule(Random& random, const ModelGraph& model, const Capacity& capacity,
                               const std::vector<int64_t>* fixed_passes) {
  Schedule schedule = ResidentSchedule(model, capacity);
  schedule.name = "random";
  if (fixed_passes != nullptr) {
    schedule.passes = *fixed_passes;
  } else {
    schedule.passes.clear();
    for (int64_t left = capacity.micro_batches; left > 0; left -= schedule.passes.back()) {
      schedule.passes.push_back(random.Between(1, left));
    }
  }
  for (UnitPlan& unit : schedule.units) {
    unit.weights_resident = random.Below(2) == 0;
    unit.accumulator_resident = random.Below(2) == 0;
    unit.update = random.Below(2) == 0 ? UpdatePlace::kDevice : UpdatePlace::kHost;
    const bool device_states = unit.update == UpdatePlace::kDevice && random.Below(2) == 0;
    unit.states = device_states ? Tier::kDevice : Tier::kHost;
  }
  // Some schedules keep little, some much.
  const uint64_t keep = random.Below(5);
  for (SegmentPlan& segment : schedule.segments) {
    for (Tier& tier : segment.tiers) {
      tier = Tier::kRecompute;
      if (random.Below(5) < keep) tier = random.Below(2) == 0 ? Tier::kDevice : Tier::kHost;
    }
  }
  return schedule;
}

// A machine of any balance: each rate over two orders of magnitude.
inline CostModel RandomMachine(Random& random) {
  const auto scaled = [&](double rate) { return rate * std::pow(10.0, random.Uniform() * 2 - 2); };
  HardwareRates rates;
  rates.h2d_bytes = scaled(rates.h2d_bytes);
  rates.d2h_bytes = scaled(rates.d2h_bytes);
  rates.host_bytes = scaled(rates.host_bytes);
  rates.gemm_flops = scaled(rates.gemm_flops);
  rates.launch_seconds = scaled(rates.launch_seconds);
  return CostModel(rates);
}

inline ProgramSetOptions OptionsOf(const RandomSetup& setup) {
  ProgramSetOptions options;
  options.gradient_dtype = setup.gradient_dtype;
  options.training = setup.capacity;
  options.evaluation = setup.capacity;
  return options;
}

// Programs of the setup's model under a random schedule.
inline ProgramSet RandomPrograms(Random& random, const RandomSetup& setup) {
  ModelGraph model = setup.Graph();
  Schedule schedule = RandomSchedule(random, model, setup.capacity, nullptr);
  return ProgramSet(std::move(model), std::move(schedule), OptionsOf(setup));
}

struct CheckedRunResult {
  std::string bits;  // a digest of losses, norms, evaluation losses, gradients, weights
  int64_t allocated[kSpaces] = {};
};

// Runs the setup's steps with every memory access checked against the programs, those in turn: step
// by step another engine goes on.
inline CheckedRunResult CheckedRun(const RandomSetup& setup,
                                   const std::vector<const ProgramSet*>& in_turn) {
  VirtualAcceleratorOptions device_options;
  device_options.threads = 2;
  device_options.poison = true;
  const std::unique_ptr<Device> device = MakeVirtualAccelerator(device_options);
  EngineOptions options;
  options.check_memory = true;
  auto owned = std::make_unique<TrainingEngine>(*device, *in_turn[0], CostModel(), options);
  owned->LoadWeights([&](const UnitSpec& unit, const UnitMemory& memory) {
    InitializeUnit(unit, setup.seed, 0.3, memory);
  });
  Digest digest;
  for (size_t s = 0; s < setup.steps.size(); ++s) {
    const ProgramSet& programs = *in_turn[s % in_turn.size()];
    if (&owned->programs() != &programs) {
      TrainingState state = owned->Leave();
      owned.reset();
      owned = std::make_unique<TrainingEngine>(*device, programs, CostModel(), options,
                                               std::move(state));
    }
    TrainingEngine& engine = *owned;
    const StepReport report = engine.Step(setup.steps[s], 1e-2);
    if (!std::isfinite(report.loss) || report.skipped) throw RunError("the run diverged");
    digest.Add(&report.loss, sizeof(report.loss));
    digest.Add(&report.gradient_norm, sizeof(report.gradient_norm));
    for (size_t u = 0; u < programs.model().units.size(); ++u) {
      const std::vector<float> gradient = engine.Gradient(u);
      digest.Add(gradient.data(), gradient.size() * sizeof(float));
    }
    if (s == 1) {
      const double loss = engine.Evaluate(setup.steps[0]);
      digest.Add(&loss, sizeof(loss));
    }
  }
  TrainingEngine& engine = *owned;
  engine.Drain();
  const ModelGraph& model = engine.programs().model();
  for (size_t u = 0; u < model.units.size(); ++u) {
    for (const ParameterSpec& p : model.units[u].parameters) {
      digest.Add(engine.Weights(u) + p.byte_offset, static_cast<size_t>(p.bytes()));
    }
  }
  CheckedRunResult result;
  result.bits = digest.Hex();
  for (int space = 0; space < kSpaces; ++space) result.allocated[space] = engine.bytes(space);
  return result;
}

inline CheckedRunResult CheckedRun(const RandomSetup& setup, const ProgramSet& programs) {
  return CheckedRun(setup, std::vector<const ProgramSet*>{&programs});
}

}  // namespace lazytrain::testing
