#include "engine/training_engine.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/thread_pool.h"

namespace lazytrain {

TrainingEngine::TrainingEngine(Device& device, const ProgramSet& programs, const CostModel& cost,
                               const EngineOptions& options)
    : TrainingEngine(device, programs, cost, options, std::unique_ptr<MemoryBlock>()) {}

TrainingEngine::TrainingEngine(Device& device, const ProgramSet& programs, const CostModel& cost,
                               const EngineOptions& options, TrainingState state)
    : TrainingEngine(device, programs, cost, options, std::move(state.store)) {
  optimizer_steps_ = state.optimizer_steps;
  executor_.Run(programs_.load(), {}, std::nullopt);
}

TrainingEngine::TrainingEngine(Device& device, const ProgramSet& programs, const CostModel& cost,
                               const EngineOptions& options, std::unique_ptr<MemoryBlock> store)
    : programs_(programs),
      cost_(cost),
      options_(options),
      memory_(device, programs.all(), std::move(store)),
      executor_(device, memory_, cost_, options.check_memory) {
  for (const Program* program : programs.all()) executor_.Prepare(*program);
}

TrainingState TrainingEngine::Leave() {
  Drain();
  return {memory_.TakeStore(), optimizer_steps_};
}

std::byte* TrainingEngine::At(int buffer) const {
  return buffer < 0 ? nullptr : memory_.Address(programs_.persistent().buffers[buffer]);
}

UnitMemory TrainingEngine::MemoryOf(size_t unit) const {
  const UnitBuffers& buffers = programs_.persistent().units[unit];
  return {At(buffers.weights), reinterpret_cast<int16_t*>(At(buffers.master_low))};
}

void TrainingEngine::LoadWeights(
    const std::function<void(const UnitSpec&, const UnitMemory&)>& fill) {
  const PersistentLayout& layout = programs_.persistent();
  // Units one beside the other: filling tens of billions of bytes takes one core minutes.
  ThreadPool threads(AvailableCores());
  threads.Run(static_cast<int64_t>(layout.units.size()), [&](int64_t unit) {
    const auto u = static_cast<size_t>(unit);
    const UnitBuffers& buffers = layout.units[u];
    for (const int zeroed : {buffers.master_low, buffers.moment1, buffers.moment2}) {
      if (zeroed < 0) continue;
      std::memset(At(zeroed), 0, static_cast<size_t>(layout.buffers[zeroed].bytes));
    }
    fill(programs_.model().units[u], MemoryOf(u));
  });
  pending_.reset();
  drained_ = true;
  optimizer_steps_ = 0;
  executor_.Run(programs_.load(), {}, std::nullopt);
}

double TrainingEngine::SumOfLosses(const Program& program, std::span<const MicroBatch> step) const {
  double loss = 0;
  for (size_t m = 0; m < step.size(); ++m) {
    const auto tokens = static_cast<int64_t>(step[m].input_ids.size());
    for (const float token : executor_.Result(program, m, "token_loss", tokens)) loss += token;
  }
  return loss;
}

StepReport TrainingEngine::Step(std::span<const MicroBatch> step, double learning_rate) {
  RunResult run = executor_.Run(programs_.training(), step, pending_);
  StepReport report;
  report.loss = SumOfLosses(programs_.training(), step);
  report.gradient_norm = run.gradient_norm.value();
  report.timeline = std::move(run.timeline);
  report.skipped = !std::isfinite(report.gradient_norm);
  pending_.reset();
  if (!report.skipped) {
    ++optimizer_steps_;
    pending_ = ScalarsOf(options_.adamw, learning_rate, optimizer_steps_,
                         ClipFactor(report.gradient_norm, options_.max_grad_norm));
  }
  drained_ = false;
  return report;
}

void TrainingEngine::Drain() {
  if (drained_) return;
  executor_.Run(programs_.update(), {}, pending_);
  executor_.Run(programs_.flush(), {}, std::nullopt);
  pending_.reset();
  drained_ = true;
}

double TrainingEngine::Evaluate(std::span<const MicroBatch> step) {
  Drain();
  executor_.Run(programs_.evaluation(), step, std::nullopt);
  return SumOfLosses(programs_.evaluation(), step);
}

std::vector<std::vector<float>> TrainingEngine::Logits(std::span<const MicroBatch> step) {
  Drain();
  executor_.Run(programs_.logits(), step, std::nullopt);
  std::vector<std::vector<float>> logits;
  for (size_t m = 0; m < step.size(); ++m) {
    const int64_t count =
        static_cast<int64_t>(step[m].selected_rows.size()) * programs_.model().vocab_size;
    const std::span<const float> rows = executor_.Result(programs_.logits(), m, "logits", count);
    logits.emplace_back(rows.begin(), rows.end());
  }
  return logits;
}

std::vector<float> TrainingEngine::Continue(std::span<const int32_t> ids, int64_t cached) {
  Drain();
  const Program& program = ids.size() == 1 ? programs_.decode() : programs_.prefill();
  const MicroBatch batch = MakeContinuation(ids, cached);
  executor_.Run(program, {&batch, 1}, std::nullopt);
  const std::span<const float> logits =
      executor_.Result(program, 0, "logits", programs_.model().vocab_size);
  return {logits.begin(), logits.end()};
}

const std::byte* TrainingEngine::Weights(size_t unit) const {
  return At(programs_.persistent().units[unit].weights);
}

std::vector<float> TrainingEngine::Gradient(size_t unit) const {
  const UnitBuffers& buffers = programs_.persistent().units[unit];
  const bool on_device = buffers.device_gradient >= 0;
  if (buffers.gradients.empty()) {
    throw InternalError("unit '{}' has no gradient", programs_.model().units[unit].name);
  }
  const std::byte* stored = At(on_device ? buffers.device_gradient : buffers.gradients[0]);
  std::vector<float> gradient(static_cast<size_t>(programs_.model().units[unit].elements), 0.0f);
  for (const ParameterSpec& p : programs_.model().units[unit].parameters) {
    if (!p.trainable) continue;
    for (int64_t i = p.element_offset; i < p.element_offset + p.elements(); ++i) {
      gradient[static_cast<size_t>(i)] =
          programs_.options().gradient_dtype == DType::kF32
              ? reinterpret_cast<const float*>(stored)[i]
              : ToFloat(reinterpret_cast<const BFloat16*>(stored)[i]);
    }
  }
  return gradient;
}

}  // namespace lazytrain
