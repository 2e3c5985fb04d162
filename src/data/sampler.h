// Which documents each training step sees, and in which order.
#pragma once

#include <cstdint>
#include <vector>

namespace lazytrain {

struct SamplerOptions {
  uint64_t seed = 0;
  // Examples a step, or, when batch_tokens is above 0, tokens a step: a step takes documents until
  // the next one would pass the limit. Either is multiplied by gradient_accumulation_steps.
  int64_t batch_size = 1;
  int64_t batch_tokens = 0;
  int64_t gradient_accumulation_steps = 1;
  // Above 0: so many passes over the data; the last step of each may be short. 0: endless; a step
  // that an epoch's end would cut short goes on with the next epoch's order.
  int64_t num_epochs = 0;
};

// Every epoch visits every document once, in an order shuffled by StreamSeed(seed, epoch): the same
// on every machine, and after a resume.
class Sampler {
 public:
  // The place of the next document: number `position` of the order of `epoch`.
  struct State {
    int64_t epoch = 0;
    int64_t position = 0;
    bool operator==(const State&) const = default;
  };

  // `lengths`: tokens of each document, at least one document. Throws Error when a document is
  // longer than a step.
  Sampler(std::vector<int64_t> lengths, const SamplerOptions& options);

  // The documents (indices into lengths) of the next step; empty when num_epochs are over.
  std::vector<int64_t> NextStep();

  const State& state() const { return state_; }
  // Throws Error when the state cannot be one of this data set.
  void Restore(const State& state);

  // Steps in the first `epochs` epochs when none is carried on into the next.
  int64_t StepsInEpochs(int64_t epochs) const;

 private:
  std::vector<int64_t> OrderOf(int64_t epoch) const;
  bool Fits(int64_t documents, int64_t tokens, int64_t next_tokens) const;

  std::vector<int64_t> lengths_;
  SamplerOptions options_;
  State state_;
  std::vector<int64_t> order_;  // of state_.epoch
};

}  // namespace lazytrain
