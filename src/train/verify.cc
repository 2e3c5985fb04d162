#include "train/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

#include "core/error.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/units.h"
#include "engine/training_engine.h"
#include "model/family.h"
#include "train/device_choice.h"
#include "train/golden_case.h"
#include "train/step.h"

namespace lazytrain {
namespace {

struct Tolerances {
  double logits, loss, gradients, losses;
};

// float32 differs from the reference by the order of sums only; bfloat16 by its 8 bits.
Tolerances TolerancesFor(DType dtype) {
  if (dtype == DType::kF32) return {2e-5, 1e-5, 1e-4, 1e-4};
  return {3e-2, 1e-2, 6e-2, 1e-2};
}

// Of the whole gradient's norm: what a tensor's error is measured by at least.
constexpr double kSmallGradient = 1e-3;

double Relative(double value, double reference) {
  return std::abs(value - reference) / std::max(std::abs(reference), 1e-30);
}

// Keeps the worst; NaN is worse than anything.
void Worst(VerifyMeasure& measure, double error, const std::string& where) {
  if (error <= measure.error && !std::isnan(error)) return;
  if (std::isnan(measure.error)) return;
  measure.error = error;
  measure.where = where;
}

Capacity CapacityOf(const GoldenCase& golden) {
  Capacity capacity;
  const auto documents = static_cast<int64_t>(golden.cu_seqlens.size()) - 1;
  for (int64_t d = 0; d < documents; ++d) {
    capacity.longest_document =
        std::max(capacity.longest_document, golden.cu_seqlens[d + 1] - golden.cu_seqlens[d]);
  }
  // One long document a micro-batch: as many micro-batches as the case allows.
  capacity.micro_batch_tokens = capacity.longest_document;
  capacity.documents = documents;
  capacity.selected = capacity.micro_batch_tokens;
  return capacity;
}

// The reference took such documents, and every position has an embedding; sft refuses them.
void NoteContext(const GoldenCase& golden, const Capacity& capacity, const ModelGraph& model) {
  if (capacity.longest_document <= model.max_positions) return;
  Note(
      "{}: a document has {} tokens; the model's context is {} (max_position_embeddings and rope "
      "scaling of {}), and sft would refuse it",
      (golden.folder / "io.safetensors").string(), capacity.longest_document, model.max_positions,
      golden.config.place());
}

// The case as a step, all logits wanted.
std::vector<MicroBatch> StepOf(const GoldenCase& golden, const Capacity& capacity) {
  std::vector<DocumentView> documents;
  for (size_t d = 0; d + 1 < golden.cu_seqlens.size(); ++d) {
    const auto begin = static_cast<size_t>(golden.cu_seqlens[d]);
    const auto length = static_cast<size_t>(golden.cu_seqlens[d + 1]) - begin;
    documents.push_back({std::span(golden.input_ids).subspan(begin, length),
                         std::span(golden.labels).subspan(begin, length)});
  }
  std::vector<MicroBatch> step = MakeStep(documents, capacity);
  for (MicroBatch& batch : step) {
    batch.selected_rows.resize(static_cast<size_t>(batch.tokens()));
    std::iota(batch.selected_rows.begin(), batch.selected_rows.end(), 0);
  }
  return step;
}

class Verifier {
 public:
  explicit Verifier(const VerifyOptions& options)
      : golden_(options.case_folder),
        tolerances_(TolerancesFor(options.dtype)),
        device_(OpenDevice(options.device, true)) {
    Capacity capacity = CapacityOf(golden_);
    step_ = StepOf(golden_, capacity);
    capacity.micro_batches = static_cast<int64_t>(step_.size());
    GraphOptions graph;
    graph.dtype = options.dtype;
    graph.head_chunk_rows = 32;
    ModelGraph model = BuildModelGraph(golden_.config, graph);
    NoteContext(golden_, capacity, model);
    CheckNothingLeftOver(golden_.checkpoint, model);
    Schedule schedule = ScheduleFromSpec(options.schedule, model, capacity);
    ProgramSetOptions programs;
    programs.gradient_dtype = options.dtype == DType::kF32 ? DType::kF32 : DType::kBF16;
    programs.training = capacity;
    programs.logits = capacity;
    programs.kernels = &KernelsFor(*device_);
    programs_ = std::make_unique<ProgramSet>(std::move(model), std::move(schedule), programs);
    EngineOptions engine;
    engine.adamw = {golden_.beta1, golden_.beta2, golden_.eps, golden_.weight_decay};
    engine.max_grad_norm = golden_.max_grad_norm;
    engine.check_memory = true;
    engine_ = std::make_unique<TrainingEngine>(*device_, *programs_, CostModel(), engine);
    engine_->LoadWeights([&](const UnitSpec& unit, const UnitMemory& memory) {
      ReadUnit(golden_.checkpoint, unit, memory);
    });
  }

  VerifyReport Run() {
    report_.measures.push_back(CheckLogits());
    VerifyMeasure loss{"loss", 0, tolerances_.loss, "step 1"};
    VerifyMeasure gradients{"gradients", 0, tolerances_.gradients, ""};
    VerifyMeasure losses{"adamw_losses", 0, tolerances_.losses, ""};
    VerifyMeasure norms{"grad_norms", 0, std::max(tolerances_.losses, tolerances_.gradients), ""};
    for (size_t s = 0; s < golden_.losses.size(); ++s) {
      const StepReport step = engine_->Step(step_, golden_.learning_rate);
      const std::string where = fmt::format("step {}", s + 1);
      if (s == 0) {
        Worst(loss, Relative(step.loss, golden_.loss), where);
        CheckGradients(gradients);
      }
      Worst(losses, Relative(step.loss, golden_.losses[s]), where);
      Worst(norms, Relative(step.gradient_norm, golden_.grad_norms[s]), where);
      AddToDigest(step);
    }
    engine_->Drain();
    AddWeightsToDigest();
    for (VerifyMeasure& m :
         {std::ref(loss), std::ref(gradients), std::ref(losses), std::ref(norms)}) {
      report_.measures.push_back(m);
    }
    report_.bits = digest_.Hex();
    report_.arena_bytes = engine_->bytes(kDeviceSpace);
    return report_;
  }

 private:
  VerifyMeasure CheckLogits() {
    VerifyMeasure measure{"logits", 0, tolerances_.logits, ""};
    const int64_t vocab = programs_->model().vocab_size;
    double largest = 0;
    for (const float value : golden_.logits) largest = std::max(largest, std::abs(double{value}));
    size_t at = 0;
    for (const std::vector<float>& rows : engine_->Logits(step_)) {
      for (const float value : rows) {
        if (at >= golden_.logits.size()) throw RunError("io.safetensors: too few logits");
        const std::string where = fmt::format("token {}", at / static_cast<size_t>(vocab));
        Worst(measure, std::abs(value - golden_.logits[at]) / largest, where);
        ++at;
      }
    }
    return measure;
  }

  void CheckGradients(VerifyMeasure& measure) {
    const ModelGraph& model = programs_->model();
    for (size_t u = 0; u < model.units.size(); ++u) {
      if (!IsTrainable(model.units[u])) continue;
      const std::vector<float> gradient = engine_->Gradient(u);
      for (const ParameterSpec& p : model.units[u].parameters) {
        for (const HubTensor& hub : p.tensors) {
          const float* ours = gradient.data() + p.element_offset + hub.offset;
          const StoredTensor& reference = golden_.gradients.Find(hub.name);
          if (reference.dtype != DType::kF32 || reference.shape != hub.shape) {
            throw RunError("{}: {}: is {} {}; float32 {} is needed",
                           golden_.gradients.path().string(), hub.name, Name(reference.dtype),
                           ToString(reference.shape), ToString(hub.shape));
          }
          Worst(measure, RelativeL2(ours, reference, kSmallGradient * golden_.grad_norms[0]),
                hub.name);
        }
      }
    }
  }

  static double RelativeL2(const float* ours, const StoredTensor& reference, double least_norm) {
    double difference = 0;
    double norm = 0;
    for (int64_t i = 0; i < NumElements(reference.shape); ++i) {
      float value = 0;
      std::memcpy(&value, reference.data + i * 4, 4);
      difference += (double{ours[i]} - value) * (double{ours[i]} - value);
      norm += double{value} * value;
    }
    return std::sqrt(difference) / std::max({std::sqrt(norm), least_norm, 1e-30});
  }

  void AddToDigest(const StepReport& step) {
    digest_.Add(&step.loss, sizeof(step.loss));
    digest_.Add(&step.gradient_norm, sizeof(step.gradient_norm));
    for (size_t u = 0; u < programs_->model().units.size(); ++u) {
      const std::vector<float> gradient = engine_->Gradient(u);
      digest_.Add(gradient.data(), gradient.size() * sizeof(float));
    }
  }

  void AddWeightsToDigest() {
    const ModelGraph& model = programs_->model();
    for (size_t u = 0; u < model.units.size(); ++u) {
      for (const ParameterSpec& p : model.units[u].parameters) {
        digest_.Add(engine_->Weights(u) + p.byte_offset, static_cast<size_t>(p.bytes()));
      }
    }
  }

  GoldenCase golden_;
  Tolerances tolerances_;
  std::unique_ptr<Device> device_;
  std::vector<MicroBatch> step_;
  std::unique_ptr<ProgramSet> programs_;
  std::unique_ptr<TrainingEngine> engine_;
  Digest digest_;
  VerifyReport report_;
};

}  // namespace

bool VerifyReport::ok() const {
  return std::all_of(measures.begin(), measures.end(), [](const auto& m) { return m.ok(); });
}

Json VerifyReport::ToJson() const {
  Json json = {{"ok", ok()}, {"bits", bits}, {"arena_bytes", arena_bytes}};
  for (const VerifyMeasure& m : measures) {
    json["measures"][m.name] = {
        {"error", m.error}, {"tolerance", m.tolerance}, {"where", m.where}, {"ok", m.ok()}};
  }
  return json;
}

VerifyReport Verify(const VerifyOptions& options) { return Verifier(options).Run(); }

}  // namespace lazytrain
