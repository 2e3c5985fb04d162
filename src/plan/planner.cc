#include "plan/planner.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <utility>

#include "core/clock.h"
#include "core/thread_pool.h"
#include "plan/local_search.h"

namespace lazytrain {
namespace {

// More passes than this stream weights so often, or leave so little to overlap with, that they have
// not been worth their programs.
constexpr int64_t kMostPasses = 12;
// Passes of one micro-batch each are tried up to this many.
constexpr int64_t kMostSingle = 64;
// Longer first passes are tried up to this many.
constexpr int64_t kMostUneven = 4;
// Of local search, for each number of passes that is worth it: about a second for 100 layers.
constexpr int64_t kSearchRounds = 60000;

std::vector<int64_t> PassCounts(const PlannerOptions& options, int64_t micro_batches) {
  std::vector<int64_t> counts;
  if (!options.passes.empty()) {
    for (const int64_t count : options.passes) {
      if (count <= micro_batches) counts.push_back(count);
    }
    return counts;
  }
  for (int64_t count = 1; count <= std::min(micro_batches, kMostPasses); ++count) {
    counts.push_back(count);
  }
  // Ordinary training: with everything on the device nothing streams, however often.
  if (micro_batches > kMostPasses && micro_batches <= kMostSingle) counts.push_back(micro_batches);
  return counts;
}

// Even passes, and those whose first is twice as long as the others: its forward sweep is all that
// hides updates, while the others hold their activations for less.
std::vector<std::vector<int64_t>> Divisions(const PlannerOptions& options, int64_t micro_batches) {
  if (!options.division.empty()) return {options.division};
  std::vector<std::vector<int64_t>> divisions;
  for (const int64_t passes : PassCounts(options, micro_batches)) {
    divisions.push_back(EvenPasses(micro_batches, passes));
    const int64_t first = (2 * micro_batches + passes) / (passes + 1);
    if (passes == 1 || passes > kMostUneven || micro_batches - first < passes - 1) continue;
    std::vector<int64_t> uneven = EvenPasses(micro_batches - first, passes - 1);
    uneven.insert(uneven.begin(), first);
    if (uneven != divisions.back()) divisions.push_back(uneven);
  }
  return divisions;
}

PlanProblem ProblemOf(const ModelGraph& model, const CostModel& cost, const PlannerOptions& options,
                      const Capacity& capacity, const PlanCosts& costs) {
  PlanProblem problem;
  problem.model = &model;
  problem.costs = &costs;
  problem.rates = cost.rates();
  problem.budget = options.budget;
  problem.space = options.space;
  problem.capacity = capacity;
  return problem;
}

class Planner {
 public:
  Planner(const ModelGraph& model, const CostModel& cost, const PlannerOptions& options)
      : model_(model), cost_(cost), options_(options), end_(SecondsNow() + options.seconds) {}

  PlanResult Run() {
    const double start = SecondsNow();
    for (const Capacity& capacity : options_.capacities) {
      costs_.push_back(std::make_unique<PlanCosts>(
          MakePlanCosts(model_, capacity, cost_, options_.states, options_.kernels)));
      for (const std::vector<int64_t>& passes : Divisions(options_, capacity.micro_batches)) {
        Attempt attempt;
        attempt.candidate.capacity = capacity;
        attempt.candidate.passes = passes;
        attempt.costs = costs_.back().get();
        attempts_.push_back(std::move(attempt));
      }
    }
    // A good schedule of some spares most of the work on the others.
    Bound([](size_t passes) { return std::has_single_bit(passes); });
    Sort();
    if (!attempts_.empty()) Search(attempts_.front());
    Bound([](size_t passes) { return !std::has_single_bit(passes); });
    Sort();
    for (Attempt& attempt : attempts_) SolveAttempt(attempt);
    if (result_.feasible) FindBound();
    for (Attempt& attempt : attempts_) result_.candidates.push_back(attempt.candidate);
    result_.solve_seconds = SecondsNow() - start;
    return std::move(result_);
  }

 private:
  struct Attempt {
    PlanCandidate candidate;
    const PlanCosts* costs = nullptr;
    LinearSolution relaxed;
    std::vector<double> incumbent;  // choices; empty: none yet
    double proven = kInfinity;  // no schedule is below; kInfinity: none is possible, or none yet
  };

  // However long it takes, something is looked for.
  bool TimeEnded() {
    if (SecondsNow() < end_ || !result_.feasible) return false;
    result_.time_ended = true;
    return true;
  }

  double Best() const { return result_.feasible ? result_.estimate.seconds : kInfinity; }

  void Sort() {
    std::stable_sort(attempts_.begin(), attempts_.end(), [](const Attempt& a, const Attempt& b) {
      return a.candidate.bound < b.candidate.bound;
    });
  }

  template <typename Wanted>
  void Bound(const Wanted& wanted) {
    std::vector<Attempt*> chosen;
    for (Attempt& attempt : attempts_) {
      if (wanted(attempt.candidate.passes.size())) chosen.push_back(&attempt);
    }
    ThreadPool threads(options_.threads);
    threads.Run(static_cast<int64_t>(chosen.size()), [&](int64_t i) {
      Attempt& attempt = *chosen[static_cast<size_t>(i)];
      PlanCandidate& candidate = attempt.candidate;
      const PlanProblem problem =
          ProblemOf(model_, cost_, options_, candidate.capacity, *attempt.costs);
      const ScheduleMip mip(problem, candidate.passes);
      SolveOptions solve;
      solve.relaxed = true;
      solve.seconds = std::max(0.1, end_ - SecondsNow());
      solve.cutoff = Best();
      attempt.relaxed = mip.program().Solve(solve);
      candidate.feasible = attempt.relaxed.status != LinearSolution::Status::kInfeasible;
      candidate.bound = kInfinity;
      if (attempt.relaxed.found()) candidate.bound = attempt.relaxed.objective;
      if (attempt.relaxed.status == LinearSolution::Status::kAbove) candidate.bound = solve.cutoff;
      attempt.proven = candidate.bound;
    });
  }

  // A schedule by local search, for a start.
  void Search(Attempt& attempt) {
    if (!attempt.relaxed.found() || !attempt.incumbent.empty()) return;
    const PlanCandidate& candidate = attempt.candidate;
    const PlanProblem problem =
        ProblemOf(model_, cost_, options_, candidate.capacity, *attempt.costs);
    const ScheduleMip mip(problem, candidate.passes);
    attempt.incumbent = LocalSearch(mip).Run(attempt.relaxed, kSearchRounds);
    if (attempt.incumbent.empty()) return;
    LinearSolution found;
    found.values = attempt.incumbent;
    ScheduleMip fixed(problem, candidate.passes);
    fixed.Fix(mip.ScheduleOf(found));
    SolveOptions solve;
    solve.relaxed = true;
    const LinearSolution solution = fixed.program().Solve(solve);
    if (solution.found()) Take(attempt, fixed, solution);
  }

  void Take(Attempt& attempt, const ScheduleMip& mip, const LinearSolution& solution) {
    PlanCandidate& candidate = attempt.candidate;
    if (candidate.seconds == 0 || solution.objective < candidate.seconds) {
      candidate.seconds = solution.objective;
    }
    if (solution.objective >= Best()) return;
    result_.feasible = true;
    result_.schedule = mip.ScheduleOf(solution);
    result_.capacity = candidate.capacity;
    result_.estimate = mip.EstimateOf(solution);
  }

  void SolveAttempt(Attempt& attempt) {
    PlanCandidate& candidate = attempt.candidate;
    // Cannot be better by more than the gap asked for.
    const auto hopeless = [&] { return candidate.bound >= Best() * (1 - options_.gap); };
    if (!attempt.relaxed.found() || hopeless()) return;
    if (TimeEnded()) return;
    Search(attempt);
    if (hopeless() || TimeEnded()) return;
    const double left = end_ - SecondsNow();
    const PlanProblem problem =
        ProblemOf(model_, cost_, options_, candidate.capacity, *attempt.costs);
    const ScheduleMip mip(problem, candidate.passes);
    SolveOptions solve;
    solve.seconds = std::max(left, 1.0);
    solve.gap = options_.gap * candidate.bound;
    solve.incumbent = attempt.incumbent;
    const LinearSolution solution = mip.program().Solve(solve);
    if (solution.status != LinearSolution::Status::kOptimal &&
        solution.status != LinearSolution::Status::kInfeasible) {
      result_.time_ended = true;
    }
    attempt.proven = std::max(attempt.proven, solution.bound);
    if (!solution.found()) {
      candidate.feasible = solution.status != LinearSolution::Status::kInfeasible;
      return;
    }
    Take(attempt, mip, solution);
  }

  void FindBound() {
    result_.bound = result_.estimate.seconds;
    for (const Attempt& attempt : attempts_) {
      if (attempt.candidate.feasible) result_.bound = std::min(result_.bound, attempt.proven);
    }
  }

  const ModelGraph& model_;
  const CostModel& cost_;
  const PlannerOptions& options_;
  double end_;
  std::vector<std::unique_ptr<PlanCosts>> costs_;
  std::vector<Attempt> attempts_;
  PlanResult result_;
};

}  // namespace

std::vector<int64_t> EvenPasses(int64_t count, int64_t passes) {
  std::vector<int64_t> sizes;
  for (int64_t p = 0; p < passes; ++p) {
    sizes.push_back(count * (p + 1) / passes - count * p / passes);
  }
  return sizes;
}

PlanResult PlanSchedule(const ModelGraph& model, const CostModel& cost,
                        const PlannerOptions& options) {
  return Planner(model, cost, options).Run();
}

double BoundOf(const ModelGraph& model, const CostModel& cost, const PlannerOptions& options,
               const Capacity& capacity, const std::vector<int64_t>& passes) {
  const PlanCosts costs = MakePlanCosts(model, capacity, cost, options.states, options.kernels);
  const PlanProblem problem = ProblemOf(model, cost, options, capacity, costs);
  SolveOptions solve;
  solve.relaxed = true;
  const LinearSolution solution = ScheduleMip(problem, passes).program().Solve(solve);
  return solution.found() ? solution.objective : kInfinity;
}

std::optional<StepEstimate> EstimateSchedule(const ModelGraph& model, const CostModel& cost,
                                             const PlannerOptions& options,
                                             const Capacity& capacity, const Schedule& schedule) {
  const PlanCosts costs = MakePlanCosts(model, capacity, cost, options.states, options.kernels);
  const PlanProblem problem = ProblemOf(model, cost, options, capacity, costs);
  ScheduleMip mip(problem, schedule.passes);
  mip.Fix(schedule);
  SolveOptions solve;
  solve.relaxed = true;
  const LinearSolution solution = mip.program().Solve(solve);
  if (!solution.found()) return std::nullopt;
  return mip.EstimateOf(solution);
}

}  // namespace lazytrain
