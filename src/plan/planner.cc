#include "plan/planner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <utility>

#include "core/thread_pool.h"

namespace lazytrain {
namespace {

// More passes than this stream weights so often, or leave so little to overlap with, that they have
// not been worth their programs.
constexpr int64_t kMostPasses = 12;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

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
  return counts;
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

// Rounds the choices of a relaxed solution, more and more of them down, until they can be had.
std::vector<double> RoundedIncumbent(const ScheduleMip& mip, const PlanProblem& problem,
                                     const std::vector<int64_t>& passes,
                                     const LinearSolution& relaxed) {
  for (const double threshold : {0.5, 0.8, 0.999}) {
    LinearSolution rounded = relaxed;
    for (double& value : rounded.values) value = value >= threshold ? 1.0 : 0.0;
    const Schedule schedule = mip.ScheduleOf(rounded);
    ScheduleMip fixed(problem, passes);
    fixed.Fix(schedule);
    SolveOptions options;
    options.relaxed = true;
    if (fixed.program().Solve(options).found()) return mip.ColumnsOf(schedule);
  }
  return {};
}

class Planner {
 public:
  Planner(const ModelGraph& model, const CostModel& cost, const PlannerOptions& options)
      : model_(model), cost_(cost), options_(options), end_(Now() + options.seconds) {}

  PlanResult Run() {
    const double start = Now();
    for (const Capacity& capacity : options_.capacities) {
      costs_.push_back(std::make_unique<PlanCosts>(
          MakePlanCosts(model_, capacity, cost_, options_.gradient_bytes)));
      for (const int64_t count : PassCounts(options_, capacity.micro_batches)) {
        Attempt attempt;
        attempt.candidate.capacity = capacity;
        attempt.candidate.passes = EvenPasses(capacity.micro_batches, count);
        attempt.costs = costs_.back().get();
        attempts_.push_back(std::move(attempt));
      }
    }
    Bound();
    std::stable_sort(attempts_.begin(), attempts_.end(), [](const Attempt& a, const Attempt& b) {
      return a.candidate.bound < b.candidate.bound;
    });
    for (Attempt& attempt : attempts_) SolveAttempt(attempt);
    if (result_.feasible) FindBound();
    for (Attempt& attempt : attempts_) result_.candidates.push_back(attempt.candidate);
    result_.solve_seconds = Now() - start;
    return std::move(result_);
  }

 private:
  struct Attempt {
    PlanCandidate candidate;
    const PlanCosts* costs = nullptr;
    LinearSolution relaxed;
    double proven = 0;  // the bound after solving
  };

  void Bound() {
    ThreadPool threads(options_.threads);
    threads.Run(static_cast<int64_t>(attempts_.size()), [&](int64_t i) {
      Attempt& attempt = attempts_[static_cast<size_t>(i)];
      PlanCandidate& candidate = attempt.candidate;
      const PlanProblem problem =
          ProblemOf(model_, cost_, options_, candidate.capacity, *attempt.costs);
      const ScheduleMip mip(problem, candidate.passes);
      SolveOptions solve;
      solve.relaxed = true;
      solve.seconds = std::max(0.1, end_ - Now());
      attempt.relaxed = mip.program().Solve(solve);
      candidate.feasible = attempt.relaxed.found();
      candidate.bound = candidate.feasible ? attempt.relaxed.objective : kInfinity;
      attempt.proven = candidate.bound;
    });
  }

  void SolveAttempt(Attempt& attempt) {
    PlanCandidate& candidate = attempt.candidate;
    if (!candidate.feasible) return;
    // Cannot be better by more than the gap asked for.
    const double best = result_.feasible ? result_.estimate.seconds : kInfinity;
    if (candidate.bound >= best * (1 - options_.gap)) return;
    const double left = end_ - Now();
    if (left <= 0 && result_.feasible) {
      result_.time_ended = true;
      return;
    }
    const PlanProblem problem =
        ProblemOf(model_, cost_, options_, candidate.capacity, *attempt.costs);
    const ScheduleMip mip(problem, candidate.passes);
    SolveOptions solve;
    solve.seconds = std::max(left, 1.0);
    solve.gap = options_.gap * candidate.bound;
    solve.incumbent = RoundedIncumbent(mip, problem, candidate.passes, attempt.relaxed);
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
    candidate.seconds = solution.objective;
    if (solution.objective >= best) return;
    result_.feasible = true;
    result_.schedule = mip.ScheduleOf(solution);
    result_.capacity = candidate.capacity;
    result_.estimate = mip.EstimateOf(solution);
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
  const PlanCosts costs = MakePlanCosts(model, capacity, cost, options.gradient_bytes);
  const PlanProblem problem = ProblemOf(model, cost, options, capacity, costs);
  SolveOptions solve;
  solve.relaxed = true;
  const LinearSolution solution = ScheduleMip(problem, passes).program().Solve(solve);
  return solution.found() ? solution.objective : kInfinity;
}

}  // namespace lazytrain
