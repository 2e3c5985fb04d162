// Every program of a run, compiled together: they share one arena.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/compiler.h"

namespace lazytrain {

struct ProgramSetOptions {
  StateSpec states;
  Capacity training;
  std::optional<Capacity> evaluation;  // absent: no such program
  std::optional<Capacity> logits;
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

  const Program& training() const { return training_; }
  const Program& evaluation() const { return evaluation_.value(); }
  const Program& logits() const { return logits_.value(); }
  const Program& update() const { return update_; }
  const Program& load() const { return load_; }
  const Program& flush() const { return flush_; }
  std::vector<const Program*> all() const;

  // Bytes of a space that all programs need together.
  int64_t PeakBytes(int space) const;

 private:
  ModelGraph model_;
  Schedule schedule_;
  ProgramSetOptions options_;
  PersistentLayout persistent_;
  CompileInput input_;
  Program training_;
  std::optional<Program> evaluation_;
  std::optional<Program> logits_;
  Program update_;
  Program load_;
  Program flush_;
};

}  // namespace lazytrain
