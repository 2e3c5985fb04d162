// Every program of a run, compiled together: they share one arena.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/compiler.h"

namespace lazytrain {

// Capacities by program; absent: there is no such program.
struct ProgramSetOptions {
  const KernelTable* kernels = nullptr;  // as in CompileInput
  DType gradient_dtype = DType::kF32;
  std::optional<Capacity> training;
  std::optional<Capacity> evaluation;
  std::optional<Capacity> logits;
  std::optional<Capacity> prefill;       // brings a second program, for one token: decode
  std::optional<TransferTuning> tuning;  // of the training program
};

// Pins the model and the schedule it was compiled from; neither copied nor moved, since programs
// point into them.
class ProgramSet {
 public:
  ProgramSet(ModelGraph model, Schedule schedule, const ProgramSetOptions& options);
  ProgramSet(const ProgramSet&) = delete;
  ProgramSet& operator=(const ProgramSet&) = delete;

  const ModelGraph& model() const { return model_; }
  const Schedule& schedule() const { return schedule_; }
  const ProgramSetOptions& options() const { return options_; }
  const PersistentLayout& persistent() const { return persistent_; }

  // Each throws std::bad_optional_access for a program that the options left out.
  const Program& training() const { return training_.value(); }
  const Program& evaluation() const { return evaluation_.value(); }
  const Program& logits() const { return logits_.value(); }
  const Program& prefill() const { return prefill_.value(); }
  const Program& decode() const { return decode_.value(); }
  const Program& update() const { return update_.value(); }
  const Program& load() const { return load_; }
  const Program& flush() const { return flush_.value(); }
  std::vector<const Program*> all() const;

  // Bytes of a space that all programs need together.
  int64_t PeakBytes(int space) const;

 private:
  ModelGraph model_;
  Schedule schedule_;
  ProgramSetOptions options_;
  PersistentLayout persistent_;
  CompileInput input_;
  Program load_;
  std::optional<Program> training_;
  std::optional<Program> update_;
  std::optional<Program> flush_;
  std::optional<Program> evaluation_;
  std::optional<Program> logits_;
  std::optional<Program> prefill_;
  std::optional<Program> decode_;
};

}  // namespace lazytrain
