#include "train/memory_limits.h"

#include <algorithm>
#include <set>
#include <utility>

namespace lazytrain {
namespace {

// The planner's most.
constexpr int64_t kManyPasses = 12;
constexpr double kMostBytes = 1e14;
constexpr double kPrecision = 1.005;
// Of a mixed-integer program that only has to find something.
constexpr double kSeconds = 1;
// Of a search that only has to fit.
constexpr double kQuickSeconds = 2;
// Tries below what linear programs allow, of it.
constexpr double kShares[] = {1, 0.85, 0.6, 0.35, 0.15, 0.05, 0.01};

std::set<int64_t> PassesToTry(int64_t micro_batches, bool one_pass) {
  if (one_pass) return {1};
  return {1, std::min<int64_t>(2, micro_batches), std::min(kManyPasses, micro_batches)};
}

}  // namespace

MemoryLimits::MemoryLimits(std::function<SearchInput(int64_t batch)> search_of, int64_t most_batch,
                           double seconds)
    : search_of_(std::move(search_of)),
      most_batch_(most_batch),
      end_(std::chrono::steady_clock::now() +
           std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds))) {}

double MemoryLimits::Bound(int64_t batch, bool one_pass, const MemoryBudget& budget) const {
  const SearchInput input = search_of_(batch);
  const PlannerOptions options = PlannerOptionsFor(input, budget);
  double best = kInfinity;
  for (const Capacity& capacity : input.capacities) {
    for (const int64_t passes : PassesToTry(capacity.micro_batches, one_pass)) {
      best = std::min(best, BoundOf(*input.model, *input.cost, options, capacity,
                                    EvenPasses(capacity.micro_batches, passes)));
    }
    if (best < kInfinity) return best;
  }
  return best;
}

bool MemoryLimits::Fits(int64_t batch, bool one_pass, const MemoryBudget& budget) const {
  const SearchInput input = search_of_(batch);
  const PlannerOptions options = PlannerOptionsFor(input, budget);
  // Small micro-batches and many passes take the least memory.
  for (auto capacity = input.capacities.rbegin(); capacity != input.capacities.rend(); ++capacity) {
    const std::set<int64_t> passes = PassesToTry(capacity->micro_batches, one_pass);
    for (auto count = passes.rbegin(); count != passes.rend(); ++count) {
      const std::vector<int64_t> even = EvenPasses(capacity->micro_batches, *count);
      if (BoundOf(*input.model, *input.cost, options, *capacity, even) < kInfinity) return true;
    }
  }
  return false;
}

bool MemoryLimits::Plans(int64_t batch, bool one_pass, const MemoryBudget& budget) const {
  const SearchInput input = search_of_(batch);
  PlannerOptions options = PlannerOptionsFor(input, budget);
  options.capacities = {input.capacities.back()};
  options.seconds = kSeconds;
  options.gap = 0.5;
  options.passes = {*PassesToTry(options.capacities[0].micro_batches, one_pass).rbegin()};
  return PlanSchedule(*input.model, *input.cost, options).feasible;
}

int64_t MemoryLimits::LargestPlanned(bool one_pass, int64_t most,
                                     const MemoryBudget& budget) const {
  for (const double share : kShares) {
    const auto batch = static_cast<int64_t>(share * static_cast<double>(most));
    if (batch > 0 && Plans(batch, one_pass, budget)) return batch;
  }
  return most > 0 && Plans(1, one_pass, budget) ? 1 : 0;
}

int64_t MemoryLimits::LargestBatch(bool one_pass, const MemoryBudget& budget) const {
  if (Fits(most_batch_, one_pass, budget)) return most_batch_;
  int64_t fits = 0;
  int64_t too_many = most_batch_;
  for (int64_t batch = 1; batch < most_batch_; batch *= 4) {
    if (!Fits(batch, one_pass, budget)) {
      too_many = batch;
      break;
    }
    fits = batch;
  }
  // To the nearest percent.
  while (too_many - fits > std::max<int64_t>(1, fits / 100) && !late()) {
    const int64_t middle = fits + (too_many - fits) / 2;
    (Fits(middle, one_pass, budget) ? fits : too_many) = middle;
  }
  return too_many - 1;
}

double MemoryLimits::Least(double MemoryBudget::*memory, int64_t batch, bool one_pass,
                           MemoryBudget budget) const {
  const double given = budget.*memory;
  budget.*memory = kMostBytes;
  if (!Fits(batch, one_pass, budget)) return kInfinity;
  double low = given;
  double high = std::max(given, 1e6);
  do {
    high *= 4;
    budget.*memory = high;
  } while (!Fits(batch, one_pass, budget));
  while (high - low > (kPrecision - 1) * high && !late()) {
    const double middle = (low + high) / 2;
    budget.*memory = middle;
    (Fits(batch, one_pass, budget) ? high : low) = middle;
  }
  return high;
}

double MemoryLimits::Enough(double MemoryBudget::*memory, int64_t batch,
                            const MemoryBudget& budget) const {
  const double least = Least(memory, batch, false, budget);
  if (least == kInfinity) return kInfinity;
  for (const double factor : {1.03, 1.15, 1.4, 1.8, 2.5}) {
    MemoryBudget more = budget;
    more.*memory = factor * std::max(least, budget.*memory);
    if (!Plans(batch, false, more)) continue;
    SearchInput search = search_of_(batch);
    search.device_bytes = static_cast<int64_t>(more.device_bytes);
    search.host_activation_bytes = static_cast<int64_t>(more.host_activation_bytes);
    search.seconds = kQuickSeconds;
    if (SearchSchedule(search).fits) return more.*memory;
  }
  return kInfinity;
}

double MemoryLimits::EnoughDevice(int64_t batch, const MemoryBudget& budget) const {
  return Enough(&MemoryBudget::device_bytes, batch, budget);
}

double MemoryLimits::EnoughHost(int64_t batch, const MemoryBudget& budget) const {
  return Enough(&MemoryBudget::host_activation_bytes, batch, budget);
}

double MemoryLimits::LeastDevice(int64_t batch, bool one_pass, MemoryBudget budget) const {
  return Least(&MemoryBudget::device_bytes, batch, one_pass, budget);
}

double MemoryLimits::LeastHost(int64_t batch, bool one_pass, MemoryBudget budget) const {
  return Least(&MemoryBudget::host_activation_bytes, batch, one_pass, budget);
}

}  // namespace lazytrain
