#include "data/sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/random.h"

namespace lazytrain {

Sampler::Sampler(std::vector<int64_t> lengths, const SamplerOptions& options)
    : lengths_(std::move(lengths)), options_(options) {
  if (lengths_.empty()) throw InternalError("a sampler needs at least one document");
  const bool valid = options_.gradient_accumulation_steps > 0 && options_.num_epochs >= 0 &&
                     (options_.batch_tokens > 0 || options_.batch_size > 0);
  if (!valid) throw InternalError("a sampler's step must not be empty");
  const int64_t longest = *std::max_element(lengths_.begin(), lengths_.end());
  if (!Fits(0, 0, longest)) {
    throw UsageError(
        "training.batch_tokens is {}, but a document has {} tokens; raise batch_tokens or lower "
        "dataset.max_seq_len",
        options_.batch_tokens, longest);
  }
  order_ = OrderOf(0);
}

std::vector<int64_t> Sampler::OrderOf(int64_t epoch) const {
  std::vector<int64_t> order(lengths_.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  Random random(StreamSeed(options_.seed, static_cast<uint64_t>(epoch)));
  random.Shuffle(order);
  return order;
}

bool Sampler::Fits(int64_t documents, int64_t tokens, int64_t next_tokens) const {
  const int64_t steps = options_.gradient_accumulation_steps;
  if (options_.batch_tokens > 0) return tokens + next_tokens <= options_.batch_tokens * steps;
  return documents < options_.batch_size * steps;
}

std::vector<int64_t> Sampler::NextStep() {
  std::vector<int64_t> step;
  int64_t tokens = 0;
  const bool endless = options_.num_epochs == 0;
  while (endless || state_.epoch < options_.num_epochs) {
    const int64_t document = order_[static_cast<size_t>(state_.position)];
    const int64_t length = lengths_[static_cast<size_t>(document)];
    if (!Fits(static_cast<int64_t>(step.size()), tokens, length)) break;
    step.push_back(document);
    tokens += length;
    if (++state_.position == static_cast<int64_t>(order_.size())) {
      state_ = {state_.epoch + 1, 0};
      order_ = OrderOf(state_.epoch);
      if (!endless) break;
    }
  }
  return step;
}

void Sampler::Restore(const State& state) {
  const auto documents = static_cast<int64_t>(lengths_.size());
  if (state.epoch < 0 || state.position < 0 || state.position >= documents) {
    throw RunError(
        "the checkpoint stands at document {} of epoch {}, but the data set has {} documents; "
        "resume with the data set it was trained on",
        state.position, state.epoch, documents);
  }
  state_ = state;
  order_ = OrderOf(state.epoch);
}

int64_t Sampler::StepsInEpochs(int64_t epochs) const {
  SamplerOptions options = options_;
  options.num_epochs = epochs;
  if (epochs <= 0) return 0;
  Sampler run(lengths_, options);
  int64_t steps = 0;
  while (!run.NextStep().empty()) ++steps;
  return steps;
}

}  // namespace lazytrain
