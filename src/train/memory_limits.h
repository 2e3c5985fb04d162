// Which budgets and batches a schedule can be found for: looked for with the planner's linear
// programs, which are quick and never too pessimistic, then settled with its mixed-integer program.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "train/plan_search.h"

namespace lazytrain {

class MemoryLimits {
 public:
  // `search_of` gives the search for a batch, with capacities for it. After so many seconds from
  // now on, limits are no longer narrowed down.
  MemoryLimits(std::function<SearchInput(int64_t batch)> search_of, int64_t most_batch,
               double seconds);

  int64_t most_batch() const { return most_batch_; }
  bool late() const { return std::chrono::steady_clock::now() > end_; }

  // Seconds that no step of the batch can be shorter than; kInfinity: it does not fit. Looks at one
  // pass, or at few and at many.
  double Bound(int64_t batch, bool one_pass, const MemoryBudget& budget) const;
  // By linear programs.
  bool Fits(int64_t batch, bool one_pass, const MemoryBudget& budget) const;
  // By a mixed-integer program of the smallest micro-batches and the most passes, in a second.
  bool Plans(int64_t batch, bool one_pass, const MemoryBudget& budget) const;

  // By linear programs: no larger batch fits. 0: not even one example does; most_batch(): perhaps
  // more.
  int64_t LargestBatch(bool one_pass, const MemoryBudget& budget) const;
  // Of batches up to `most`, one that Plans, as large as a few tries find.
  int64_t LargestPlanned(bool one_pass, int64_t most, const MemoryBudget& budget) const;

  // The least bytes of one memory that do by linear programs, the other as given; kInfinity: none.
  double LeastDevice(int64_t batch, bool one_pass, MemoryBudget budget) const;
  double LeastHost(int64_t batch, bool one_pass, MemoryBudget budget) const;
  // From there on, so much that a compiled step was found to fit; kInfinity: not found.
  double EnoughDevice(int64_t batch, const MemoryBudget& budget) const;
  double EnoughHost(int64_t batch, const MemoryBudget& budget) const;

 private:
  double Enough(double MemoryBudget::*memory, int64_t batch, const MemoryBudget& budget) const;
  double Least(double MemoryBudget::*memory, int64_t batch, bool one_pass,
               MemoryBudget budget) const;

  std::function<SearchInput(int64_t batch)> search_of_;
  int64_t most_batch_;
  std::chrono::steady_clock::time_point end_;
};

}  // namespace lazytrain
