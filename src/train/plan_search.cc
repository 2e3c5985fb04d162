#include "train/plan_search.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/clock.h"
#include "program/persistent.h"
#include "program/simulator.h"

namespace lazytrain {
namespace {

// Budgets that are tried below the cap, and how far they lie apart, of the cap.
constexpr int kCorrections = 3;
constexpr double kStep = 0.025;
// How much slower than the mixed-integer program's step a simulated one may be before other numbers
// of passes are looked at.
constexpr double kOptimism = 1.03;
// Local search only where a step compiles in less than this.
constexpr double kQuickCompile = 0.02;
constexpr double kPolishShare = 0.5;  // of the search's time
// What is compiled and simulated besides may take as long again as the search.
constexpr double kOvertime = 2.0;
// Of training as usual: passes, and micro-batches in one pass. Longer programs take long to
// compile.
constexpr int64_t kMostOrdinary = 64;
constexpr int64_t kMostKept = 16;

using Passes = std::vector<int64_t>;  // micro-batches of each

class Search {
 public:
  explicit Search(const SearchInput& input) : input_(input), start_(SecondsNow()) {}

  PlannedStep Run() {
    PlannerOptions options =
        PlannerOptionsFor(input_, {static_cast<double>(input_.device_bytes),
                                   static_cast<double>(input_.host_activation_bytes)});
    options.capacities = input_.capacities;
    options.passes = input_.passes;
    options.division = input_.division;
    options.seconds = input_.seconds;
    best_.plan = PlanSchedule(*input_.model, *input_.cost, options);
    best_.options = options;
    TryBaselines();
    if (best_.plan.feasible) {
      Correct(options, best_.plan);
      TryFewPasses(options);
    }
    BalanceUpdates(UpdatePlace::kHost, UpdatePlace::kDevice);
    BalanceUpdates(UpdatePlace::kDevice, UpdatePlace::kHost);
    Polish();
    return std::move(best_);
  }

 private:
  struct Tried {
    double seconds = 0;
    int64_t device_bytes = 0;
  };

  Tried Try(const Schedule& schedule, const Capacity& capacity) {
    const double start = SecondsNow();
    const PersistentLayout persistent =
        MakePersistentLayout(*input_.model, schedule, input_.states, 0);
    const CompileInput compile{input_.model, &schedule, &persistent, input_.states, input_.kernels};
    const Program program =
        CompileTraining(compile, capacity, TransferTuning{input_.cost, input_.device_bytes});
    // The program that only updates shares the arena.
    const Tried tried{Simulate(program, FullStep(capacity), *input_.cost).seconds,
                      std::max(program.peak_bytes[kDeviceSpace],
                               CompileUpdate(compile).peak_bytes[kDeviceSpace])};
    compile_seconds_ = SecondsNow() - start;
    const bool fits = tried.device_bytes <= input_.device_bytes;
    const bool better = best_.simulated == 0 || (fits && !best_.fits) ||
                        (fits == best_.fits &&
                         (fits ? Better(tried, best_) : tried.device_bytes < best_.device_bytes));
    if (!better) return tried;
    best_.schedule = schedule;
    best_.capacity = capacity;
    best_.simulated = tried.seconds;
    best_.device_bytes = tried.device_bytes;
    best_.fits = fits;
    return tried;
  }

  static bool Better(const Tried& tried, const PlannedStep& best) {
    if (tried.seconds != best.simulated) return tried.seconds < best.simulated;
    return tried.device_bytes < best.device_bytes;
  }

  // Schedules that need no planner: what it makes is never worse. Where compiling takes long, only
  // the first interval.
  void TryBaselines() {
    if (!input_.space.groups.empty()) return;
    for (const Capacity& capacity : input_.capacities) {
      if (best_.plan.feasible &&
          capacity.micro_batch_tokens != best_.plan.capacity.micro_batch_tokens) {
        continue;
      }
      const auto [fewest, most] = AllowedPasses(capacity.micro_batches);
      TryOrdinary(capacity, fewest, most);
      for (const int64_t interval : {1, 2, 4}) {
        TryUpdates(IntervalSchedule(*input_.model, capacity, interval), fewest, capacity);
        if (compile_seconds_ > kQuickCompile) break;
      }
    }
  }

  // Training as usual, which is hard to beat where everything has room: the mixed-integer program
  // believes that transfers cost nothing as long as the links have time. The most passes hold the
  // least at once, the fewest do the least work.
  void TryOrdinary(const Capacity& capacity, const Passes& fewest, const Passes& most) {
    if (!input_.space.residency) return;
    const Schedule schedule = ResidentSchedule(*input_.model, capacity);
    const PersistentLayout persistent =
        MakePersistentLayout(*input_.model, schedule, input_.states, 0);
    if (persistent.bytes[kDeviceSpace] > input_.device_bytes) return;
    TryUpdates(schedule, most, capacity);
    const auto passes = static_cast<int64_t>(fewest.size());
    if (fewest != most && capacity.micro_batches <= kMostKept * passes) {
      TryUpdates(schedule, fewest, capacity);
    }
  }

  // The fewest and the most passes that were asked for, or are worth their programs.
  std::pair<Passes, Passes> AllowedPasses(int64_t micro_batches) const {
    if (!input_.division.empty()) return {input_.division, input_.division};
    int64_t fewest = 1;
    int64_t most = kMostOrdinary;
    if (!input_.passes.empty()) {
      const auto [least, greatest] =
          std::minmax_element(input_.passes.begin(), input_.passes.end());
      fewest = *least;
      most = *greatest;
    }
    return {EvenPasses(micro_batches, std::min(fewest, micro_batches)),
            EvenPasses(micro_batches, std::min(most, micro_batches))};
  }

  // Wherever updates may run.
  void TryUpdates(Schedule schedule, const Passes& passes, const Capacity& capacity) {
    schedule.passes = passes;
    if (input_.space.host_updates) Try(schedule, capacity);
    if (!input_.space.device_updates) return;
    UpdateOnDevice(schedule);
    Try(schedule, capacity);
  }

  // The mixed-integer program lets transfers and compute overlap perfectly; many short passes leave
  // less room for that than it believes. Where the simulator disagrees, it also judges the best
  // plans of few passes.
  void TryFewPasses(PlannerOptions options) {
    if (!input_.passes.empty() || !input_.division.empty()) return;
    const double believed = best_.plan.estimate.seconds;
    for (const int64_t passes : {1, 2}) {
      if (best_.fits && best_.simulated <= kOptimism * believed) return;
      if (passes == static_cast<int64_t>(best_.plan.schedule.passes.size())) continue;
      options.passes = {passes};
      options.seconds = 0.3 * input_.seconds;
      const PlanResult result = PlanSchedule(*input_.model, *input_.cost, options);
      if (!result.feasible) continue;
      const double before = best_.simulated;
      Correct(options, result);
      if (best_.simulated < before) best_.plan = result;
    }
  }

  // Solves again for the best passes with less memory: the planner's idea of it is a little off the
  // arena's, and what is left over lets transfers run further ahead than the planner counts with.
  // The simulator judges.
  void Correct(PlannerOptions options, PlanResult result) {
    options.capacities = {result.capacity};
    options.division = result.schedule.passes;
    const auto cap = static_cast<double>(input_.device_bytes);
    double budget = cap;
    for (int i = 0;; ++i) {
      const Tried tried = Try(result.schedule, result.capacity);
      const bool late = best_.fits && !InTime(kOvertime);
      if (late) best_.plan.time_ended = true;
      if (late || i == kCorrections) return;
      const double over = static_cast<double>(tried.device_bytes) - cap;
      budget -= std::max(kStep * cap, 1.1 * over);
      options.budget.device_bytes = budget;
      // However long the search took: a plan that does not fit is none.
      options.seconds = std::max(input_.seconds - (SecondsNow() - start_), 0.2 * input_.seconds);
      result = PlanSchedule(*input_.model, *input_.cost, options);
      if (!result.feasible) return;
    }
  }

  // The mixed-integer program spreads what links and updates do to host memory evenly over a
  // window; in a program links run ahead, and slow the host down while they do. So the simulator
  // has the last word on how many units are updated where: more and more of them, evenly spread,
  // change places as long as that helps.
  void BalanceUpdates(UpdatePlace from, UpdatePlace to) {
    const bool choice = input_.space.device_updates && input_.space.host_updates;
    if (!choice || !best_.fits) return;
    const Schedule base = best_.schedule;
    const Capacity capacity = best_.capacity;
    const std::vector<int> units = AlikeUpdatedOn(base, from);
    int vain = 0;
    for (size_t count = 1; count <= units.size() && vain < 2 && InTime(kOvertime); ++count) {
      Schedule schedule = base;
      for (size_t i = 0; i < count; ++i) {
        UpdateAt(to, schedule.units[units[(2 * i + 1) * units.size() / (2 * count)]]);
      }
      const double before = best_.simulated;
      Try(schedule, capacity);
      vain = best_.simulated < before ? 0 : vain + 1;
    }
  }

  // What is updated on the host has its states there; what comes from there brings them.
  static void UpdateAt(UpdatePlace place, UnitPlan& unit) {
    unit.update = place;
    unit.states = Tier::kHost;
  }

  // Trainable units of one size, of which there are the most: layers.
  std::vector<int> AlikeUpdatedOn(const Schedule& schedule, UpdatePlace place) const {
    std::map<int64_t, std::vector<int>> by_size;
    for (size_t u = 0; u < schedule.units.size(); ++u) {
      const UnitSpec& unit = input_.model->units[u];
      if (!IsTrainable(unit) || schedule.units[u].update != place) continue;
      by_size[unit.elements].push_back(static_cast<int>(u));
    }
    std::vector<int> most;
    for (auto& [size, units] : by_size) {
      if (units.size() > most.size()) most = std::move(units);
    }
    return most;
  }

  // Changes one choice at a time, then two, as long as the simulated step gets shorter.
  void Polish() {
    while (compile_seconds_ < kQuickCompile) {
      const double before = best_.simulated;
      const bool fit_before = best_.fits;
      const Schedule base = best_.schedule;
      const Capacity capacity = best_.capacity;
      for (const Schedule& schedule : Neighbours(base)) {
        if (!InTime(kPolishShare)) {
          best_.plan.time_ended = true;
          return;
        }
        Try(schedule, capacity);
      }
      if (best_.simulated == before && best_.fits == fit_before && !PolishPairs(base, capacity)) {
        return;
      }
    }
  }

  bool PolishPairs(const Schedule& base, const Capacity& capacity) {
    const double before = best_.simulated;
    for (const Schedule& first : Neighbours(base)) {
      for (const Schedule& second : Neighbours(first)) {
        if (!InTime(kPolishShare)) {
          best_.plan.time_ended = true;
          return false;
        }
        Try(second, capacity);
        if (best_.simulated < before) return true;
      }
    }
    return false;
  }

  bool InTime(double share) const { return SecondsNow() - start_ < share * input_.seconds; }

  std::vector<Schedule> Neighbours(const Schedule& base) const {
    std::vector<Schedule> neighbours;
    for (size_t s = 0; s < base.segments.size(); ++s) {
      for (size_t g = 0; g < base.segments[s].tiers.size(); ++g) {
        if (!input_.space.MayKeep(input_.model->loss, s, g)) continue;
        for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kRecompute}) {
          if (base.segments[s].tiers[g] == tier) continue;
          neighbours.push_back(base);
          neighbours.back().segments[s].tiers[g] = tier;
        }
      }
    }
    for (size_t u = 0; u < base.units.size() && input_.space.residency; ++u) {
      const auto add = [&](auto change) {
        neighbours.push_back(base);
        change(neighbours.back().units[u]);
      };
      add([](UnitPlan& unit) { unit.weights_resident = !unit.weights_resident; });
      if (base.passes.size() > 1) {
        add([](UnitPlan& unit) { unit.accumulator_resident = !unit.accumulator_resident; });
      }
      if (!input_.space.device_updates) continue;
      if (base.units[u].update == UpdatePlace::kDevice) {
        add([](UnitPlan& unit) {
          unit.states = unit.states == Tier::kDevice ? Tier::kHost : Tier::kDevice;
        });
      }
      if (!input_.space.host_updates) continue;
      add([](UnitPlan& unit) {
        const bool host = unit.update == UpdatePlace::kHost;
        UpdateAt(host ? UpdatePlace::kDevice : UpdatePlace::kHost, unit);
      });
    }
    return neighbours;
  }

  const SearchInput& input_;
  double start_;
  double compile_seconds_ = 0;
  PlannedStep best_;
};

}  // namespace

PlannerOptions PlannerOptionsFor(const SearchInput& input, const MemoryBudget& budget) {
  PlannerOptions options;
  options.states.gradient = static_cast<double>(SizeOf(input.states.gradient_dtype));
  options.budget.device_bytes = budget.device_bytes;
  options.budget.host_activation_bytes = budget.host_activation_bytes;
  options.kernels = input.kernels;
  options.space = input.space;
  return options;
}

PlannedStep SearchSchedule(const SearchInput& input) { return Search(input).Run(); }

}  // namespace lazytrain
