// A model being trained: its memory, its programs, its pending update. What commands drive.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/batch.h"
#include "engine/executor.h"
#include "optim/adamw.h"
#include "plan/cost_model.h"
#include "program/program_set.h"
#include "weights/parameters.h"

namespace lazytrain {

struct EngineOptions {
  AdamWSettings adamw;
  double max_grad_norm = 1.0;  // <= 0: gradients are not clipped
  bool check_memory = false;   // slow: for tests and `verify`
};

struct StepReport {
  double loss = 0;           // mean over predicted tokens
  double gradient_norm = 0;  // before clipping
  bool skipped = false;      // a gradient was not finite: no update follows
  StepTimeline timeline;
};

// All that training has come to, between two steps.
struct TrainingState {
  std::unique_ptr<MemoryBlock> store;  // weights, masters, moments
  int64_t optimizer_steps = 0;
};

class TrainingEngine {
 public:
  // Allocates all memory of the run. `device` and `programs` must outlive the engine.
  TrainingEngine(Device& device, const ProgramSet& programs, const CostModel& cost,
                 const EngineOptions& options);
  // Goes on where an engine with other programs of the same model stopped.
  TrainingEngine(Device& device, const ProgramSet& programs, const CostModel& cost,
                 const EngineOptions& options, TrainingState state);

  // Drains, and gives away what another engine goes on with. This one can only be destroyed then,
  // which has to come first where the device cannot hold both.
  TrainingState Leave();

  // Calls `fill` with each unit's host memory, several at once on threads of their own, then brings
  // to the device what stays there. Moments start at 0.
  void LoadWeights(const std::function<void(const UnitSpec&, const UnitMemory&)>& fill);

  // Applies the update that is pending, computes the step's losses and gradients, and leaves an
  // update with this learning rate pending.
  StepReport Step(std::span<const MicroBatch> step, double learning_rate);

  // Applies what is pending and brings the host's weights up to date.
  void Drain();

  // Losses of a batch: the sum over tokens of loss weight times loss, with the weights given.
  // Drains.
  double Evaluate(std::span<const MicroBatch> step);

  // Logits of the selected rows of each micro-batch, float32, [selected, vocab_size]. Drains.
  std::vector<std::vector<float>> Logits(std::span<const MicroBatch> step);

  // Logits of the token after `ids`, which follow the `cached` tokens of the same document that the
  // calls before were given; [vocab_size]. Drains.
  std::vector<float> Continue(std::span<const int32_t> ids, int64_t cached);

  // Host weights, up to date after Drain.
  const std::byte* Weights(size_t unit) const;
  // The gradient of the last step as stored, before clipping, in float32: UnitSpec::elements
  // values. Only for units updated on the host, and before the next Step.
  std::vector<float> Gradient(size_t unit) const;

  Executor& executor() { return executor_; }
  const ProgramSet& programs() const { return programs_; }
  // What was allocated, by space.
  int64_t bytes(int space) const { return memory_.bytes(space); }
  int64_t host_bytes() const { return bytes(kHostSpace) + bytes(kStoreSpace); }
  // Of the arena, those that were ever touched.
  int64_t device_bytes_used() const { return memory_.block(kDeviceSpace).TouchedBytes(); }

 private:
  TrainingEngine(Device& device, const ProgramSet& programs, const CostModel& cost,
                 const EngineOptions& options, std::unique_ptr<MemoryBlock> store);
  UnitMemory MemoryOf(size_t unit) const;
  std::byte* At(int buffer) const;
  double SumOfLosses(const Program& program, std::span<const MicroBatch> step) const;

  const ProgramSet& programs_;
  CostModel cost_;
  EngineOptions options_;
  RunMemory memory_;
  Executor executor_;
  std::optional<AdamWScalars> pending_;
  bool drained_ = true;
  int64_t optimizer_steps_ = 0;
};

}  // namespace lazytrain
