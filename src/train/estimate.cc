#include "train/estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/units.h"
#include "device/cuda/driver_overhead.h"
#include "profile/machine_profile.h"
#include "program/program_set.h"
#include "program/simulator.h"
#include "train/believed_costs.h"
#include "train/config/config.h"
#include "train/memory_limits.h"
#include "train/model_folder.h"
#include "train/plan_inputs.h"
#include "train/trained_graph.h"

namespace lazytrain {
namespace {

// Less memory is no GPU's, but the virtual accelerator's.
constexpr double kSmallestGpu = 4e9;
// Guesses for rates that are not given: a server's processor, a GPU of the last generations.
constexpr double kGuessedHostGbps = 60;
constexpr double kGuessedTflops = 400;
// Of the highest tokens/s that a batch could have, what the smallest one that is looked for has.
constexpr double kNearlyBest = 0.98;
// Beyond this a step takes long to compile, and no longer gains from more.
constexpr int64_t kUsualMicroBatches = 64;
// For bounds of batches and budgets, of which the first ones matter most.
constexpr double kLimitSeconds = 12;
// Of a search whose schedule is thrown away.

void CheckAmount(const char* flag, double value, bool required) {
  if (value == 0 && !required) return;
  if (!(value > 0 && value <= 1e6)) {
    throw UsageError("{}: is {}; it has to be above 0, at most 1000000", flag, value);
  }
}

void CheckOptions(const EstimateOptions& options) {
  const bool rates = options.profile.empty();
  CheckAmount("--gpu-memory-gb", options.gpu_memory_gb, true);
  CheckAmount("--cpu-memory-budget-gb", options.cpu_memory_gb, true);
  if (rates && (options.h2d_gbps == 0 || options.d2h_gbps == 0)) {
    throw UsageError("{}: is missing; give it in GB/s, or --profile with a file that knows it",
                     options.h2d_gbps == 0 ? "--h2d-bandwidth-gbps" : "--d2h-bandwidth-gbps");
  }
  CheckAmount("--h2d-bandwidth-gbps", options.h2d_gbps, rates);
  CheckAmount("--d2h-bandwidth-gbps", options.d2h_gbps, rates);
  CheckAmount("--host-bandwidth-gbps", options.host_gbps, false);
  CheckAmount("--gemm-tflops", options.gemm_tflops, false);
  CheckAmount("--nvme-gb", options.nvme_gb, false);
  if (options.batch < 0 || options.batch > 1'000'000) {
    throw UsageError("--batch: is {}; it has to be from 1 to 1000000, or 0 to look for one",
                     options.batch);
  }
  if (options.sequence < 2 || options.sequence > 1 << 24) {
    throw UsageError("--seq: is {}; it has to be from 2 to 16777216", options.sequence);
  }
}

class Estimator {
 public:
  explicit Estimator(const EstimateOptions& options)
      : options_(options),
        hub_(HubConfig::FromFolder(FindModelFolder(options.model, "--model"))),
        model_(BuildTrainedGraph(hub_, DType::kBF16)),
        // As many as a step program can list, in micro-batches of the usual size.
        limits_([this](int64_t batch) { return SearchOf(batch); },
                std::max<int64_t>(
                    1, kMaxMicroBatches * std::max<int64_t>(1, kTokensAtOnce / options.sequence)),
                kLimitSeconds) {
    if (options.sequence > model_.max_positions) {
      throw UsageError("--seq: {} tokens, but the model's context is {}; lower it",
                       options.sequence, model_.max_positions);
    }
    if (options.batch > limits_.most_batch()) {
      throw UsageError("--batch: is {}, and with --seq {} a step has at most {} examples; lower it",
                       options.batch, options.sequence, limits_.most_batch());
    }
    FindCosts();
    estimate_.model = std::filesystem::path(options.model).filename().string();
    estimate_.parameters = model_.ParameterCount();
    estimate_.sequence = options.sequence;
    estimate_.device_cap = options.gpu_memory_gb * 1e9;
    estimate_.host_budget = options.cpu_memory_gb * 1e9;
    const Config config = ConfigOf(1);
    estimate_.store_bytes = StoreBytes(model_, kStates, CapacityOf(config));
    estimate_.host_activation_bytes = HostActivationBytes(config, estimate_.store_bytes);
    if (estimate_.device_cap >= kSmallestGpu) {
      estimate_.driver_bytes = static_cast<double>(
          cuda::kContextBytes +
          cuda::PinnedTableBytes(estimate_.store_bytes + estimate_.host_activation_bytes));
    }
    budget_ = {estimate_.device_cap - estimate_.driver_bytes,
               static_cast<double>(estimate_.host_activation_bytes)};
  }

  Estimate Run() {
    const auto missing = static_cast<double>(estimate_.store_bytes) - estimate_.host_budget;
    if (missing > 0) {
      RefuseStore(missing);
    } else if (options_.batch > 0) {
      RunBatch();
    } else {
      RunSearch();
    }
    return std::move(estimate_);
  }

 private:
  static constexpr StateSpec kStates = {true, DType::kBF16};

  Config ConfigOf(int64_t batch) const {
    const std::vector<std::string> settings = {
        fmt::format("training.batch_size={}", batch),
        fmt::format("dataset.max_seq_len={}", options_.sequence),
        fmt::format("memory.device_memory_gb={}", options_.gpu_memory_gb),
        fmt::format("memory.host_memory_gb={}", options_.cpu_memory_gb),
        fmt::format("memory.solve_seconds={}", options_.seconds),
        // Said once is enough.
        "training.save_every=0", "training.keep_last=0", "training.resume=never"};
    return ConfigFromOverrides(settings);
  }

  SearchInput SearchOf(int64_t batch) const {
    return MakeSearchInput(ConfigOf(batch), model_, kStates, cost_, nullptr,
                           static_cast<int64_t>(budget_.device_bytes),
                           static_cast<int64_t>(budget_.host_activation_bytes));
  }

  void FindCosts() {
    HardwareSettings given;
    const auto set = [](double value, Auto<double>& setting) {
      if (value > 0) setting = value;
    };
    set(options_.h2d_gbps, given.h2d_gbps);
    set(options_.d2h_gbps, given.d2h_gbps);
    set(options_.host_gbps, given.host_gbps);
    set(options_.gemm_tflops, given.gemm_tflops);
    if (options_.nvme_gb > 0) {
      estimate_.assumptions.push_back(fmt::format(
          "{} GB of NVMe are not counted with: that tier is not executed yet", options_.nvme_gb));
    }
    if (!options_.profile.empty()) {
      const MachineProfile profile =
          MachineProfile::FromJson(ReadJsonFile(options_.profile), options_.profile);
      cost_ =
          WithGivenRates(profile.Costs(model_, {CapacityOf(ConfigOf(1)).MicroBatchRows()}), given);
      estimate_.assumptions.push_back(
          fmt::format("rates and op times of {} ({})", options_.profile, profile.machine.device));
      return;
    }
    const auto guess = [&](const char* what, double value, const char* unit, const char* flag,
                           Auto<double>& setting) {
      if (setting) return;
      setting = value;
      estimate_.assumptions.push_back(
          fmt::format("{} of {} {}, a guess: give {} or --profile", what, value, unit, flag));
    };
    guess("host memory", kGuessedHostGbps, "GB/s", "--host-bandwidth-gbps", given.host_gbps);
    guess("matrix products", kGuessedTflops, "TFLOP/s", "--gemm-tflops", given.gemm_tflops);
    estimate_.assumptions.push_back(
        "ops take what their FLOPs and bytes take; a profile knows their times");
    cost_ = CostsOfRates(given);
  }

  void RefuseStore(double missing) {
    const double needed = static_cast<double>(estimate_.store_bytes) / 0.92;
    estimate_.shortage =
        fmt::format("host memory is {} short: weights, gradients and optimizer states take {}",
                    FormatBytes(static_cast<int64_t>(missing)), FormatBytes(estimate_.store_bytes));
    estimate_.changes.push_back(
        fmt::format("--cpu-memory-budget-gb {:.0f} holds them, and leaves what the system needs",
                    std::ceil(needed / 1e9)));
  }

  // Plans, compiles and simulates; whether it fits.
  bool Plan(int64_t batch) {
    const SearchInput search = SearchOf(batch);
    if (search.capacities.back().micro_batches > kUsualMicroBatches) return PlanLong(batch, search);
    const PlannedStep planned = SearchSchedule(search);
    if (!planned.fits) return false;
    const double bound = planned.plan.feasible ? planned.plan.bound : 0;
    return Compile(batch, planned.schedule, planned.capacity, bound);
  }

  // Long programs take long to compile: one or two instead of many. The planner's idea of memory is
  // a little off the arena's, so it gets less.
  bool PlanLong(int64_t batch, const SearchInput& search) {
    for (const double share : {0.96, 0.88}) {
      PlannerOptions options =
          PlannerOptionsFor(search, {share * budget_.device_bytes, budget_.host_activation_bytes});
      options.capacities = search.capacities;
      options.seconds = options_.seconds;
      const PlanResult plan = PlanSchedule(model_, cost_, options);
      if (!plan.feasible) return false;
      if (Compile(batch, plan.schedule, plan.capacity, plan.bound)) return true;
    }
    return false;
  }

  bool Compile(int64_t batch, const Schedule& schedule, const Capacity& capacity, double bound) {
    ProgramSetOptions compile;
    compile.gradient_dtype = kStates.gradient_dtype;
    compile.training = capacity;
    compile.tuning = {&cost_, static_cast<int64_t>(budget_.device_bytes)};
    const ProgramSet programs(model_, schedule, compile);
    EstimatedStep step;
    step.batch = batch;
    step.passes = static_cast<int64_t>(schedule.passes.size());
    step.micro_batches = capacity.micro_batches;
    step.micro_batch_tokens = capacity.micro_batch_tokens;
    step.seconds = Simulate(programs.training(), FullStep(capacity), cost_).seconds;
    step.bound_seconds = bound;
    step.device_bytes = programs.PeakBytes(kDeviceSpace);
    step.activation_bytes = programs.PeakBytes(kHostSpace);
    step.tokens_per_second = Tokens(batch) / step.seconds;
    if (static_cast<double>(step.device_bytes) > budget_.device_bytes) return false;
    if (static_cast<double>(step.activation_bytes) > 1.01 * budget_.host_activation_bytes + 1e8) {
      return false;
    }
    estimate_.step = step;
    return true;
  }

  double Tokens(int64_t batch) const {
    return static_cast<double>(batch) * static_cast<double>(options_.sequence);
  }

  void RunBatch() {
    const int64_t batch = options_.batch;
    if (limits_.Fits(batch, false, budget_) && Plan(batch)) return;
    Refuse(batch);
  }

  void Refuse(int64_t batch) {
    const double device = limits_.EnoughDevice(batch, budget_);
    const double host = limits_.EnoughHost(batch, budget_);
    if (device < kInfinity) {
      const double missing = device - budget_.device_bytes;
      estimate_.shortage =
          fmt::format("device memory is {} short", FormatBytes(static_cast<int64_t>(missing)));
      const double gb = (device + estimate_.driver_bytes) / 1e9;
      estimate_.changes.push_back(fmt::format("--gpu-memory-gb {:.6g}", RoundedUp(gb)));
    }
    if (host < kInfinity) {
      const double missing = host - budget_.host_activation_bytes;
      estimate_.shortage += fmt::format("{}host memory for activations is {} short",
                                        device < kInfinity ? ", or " : "",
                                        FormatBytes(static_cast<int64_t>(missing)));
      const double gb = (host + static_cast<double>(estimate_.store_bytes)) / 0.92e9;
      estimate_.changes.push_back(fmt::format("--cpu-memory-budget-gb {:.6g}", RoundedUp(gb)));
    }
    if (estimate_.shortage.empty()) estimate_.shortage = "device and host memory are both short";
    if (batch > 1) {
      const int64_t most = std::min(batch - 1, limits_.LargestBatch(false, budget_));
      if (const int64_t largest = limits_.LargestPlanned(false, most, budget_); largest > 0) {
        estimate_.changes.push_back(fmt::format("--batch {}", largest));
      }
    }
    if (const int64_t shorter = LongestSequence(batch); shorter > 0) {
      estimate_.changes.push_back(fmt::format("--seq {}", shorter));
    }
  }

  // Three digits that hold it.
  static double RoundedUp(double gb) {
    const double unit = std::pow(10.0, std::floor(std::log10(gb)) - 2);
    return std::ceil(gb / unit) * unit;
  }

  // The nearest half, quarter, ... of the sequence with which the batch fits; 0: none.
  int64_t LongestSequence(int64_t batch) {
    const int64_t given = options_.sequence;
    for (int64_t length = given / 2; length >= 16; length /= 2) {
      options_.sequence = length;
      const bool fits = limits_.Plans(batch, false, budget_);
      options_.sequence = given;
      if (fits) return length;
    }
    return 0;
  }

  void RunSearch() {
    const int64_t one_pass = limits_.LargestBatch(true, budget_);
    const int64_t all = one_pass < limits_.most_batch() ? limits_.LargestBatch(false, budget_)
                                                        : limits_.most_batch();
    if (all == 0) return Refuse(1);
    const int64_t picked = PickBatch(all);
    estimate_.one_pass = Describe(one_pass, true);
    estimate_.more_passes = Describe(all, false);
    for (int64_t batch = picked; batch > 0; batch /= 2) {
      if (Plan(batch)) return;
    }
    Refuse(1);
  }

  LargestBatch Describe(int64_t at_most, bool one_pass) const {
    LargestBatch largest;
    largest.at_most = at_most;
    largest.batch = limits_.LargestPlanned(one_pass, at_most, budget_);
    largest.bounded = at_most < limits_.most_batch();
    if (!largest.bounded) return largest;
    const int64_t twice = std::min(limits_.most_batch(), std::max<int64_t>(2 * at_most, 1));
    const double device = limits_.LeastDevice(twice, one_pass, budget_);
    const double host = limits_.LeastHost(twice, one_pass, budget_);
    if (device < kInfinity) {
      largest.blocked_by.emplace_back("device memory",
                                      static_cast<int64_t>(device - budget_.device_bytes));
    }
    if (host < kInfinity) {
      largest.blocked_by.emplace_back("host memory",
                                      static_cast<int64_t>(host - budget_.host_activation_bytes));
    }
    return largest;
  }

  // The smallest batch that reaches nearly the most tokens/s, of those that double from one to what
  // compiles quickly.
  int64_t PickBatch(int64_t largest) {
    const int64_t usual =
        kUsualMicroBatches * std::max<int64_t>(1, kTokensAtOnce / options_.sequence);
    std::vector<int64_t> batches;
    for (int64_t batch = 1; batch <= std::min(largest, usual); batch *= 2) batches.push_back(batch);
    if (largest < usual && batches.back() != largest) batches.push_back(largest);
    double most = 0;
    for (const int64_t batch : batches) {
      if (limits_.late() && !estimate_.batches.empty()) break;
      BatchBound bound;
      bound.batch = batch;
      bound.seconds = limits_.Bound(batch, true, budget_);
      bound.one_pass = bound.seconds < kInfinity;
      if (!bound.one_pass) bound.seconds = limits_.Bound(batch, false, budget_);
      if (bound.seconds == kInfinity) continue;
      bound.tokens_per_second = Tokens(batch) / bound.seconds;
      most = std::max(most, bound.tokens_per_second);
      estimate_.batches.push_back(bound);
    }
    for (const BatchBound& bound : estimate_.batches) {
      if (bound.tokens_per_second >= kNearlyBest * most) return bound.batch;
    }
    return 1;
  }

  EstimateOptions options_;
  HubConfig hub_;
  ModelGraph model_;
  CostModel cost_;
  MemoryBudget budget_;
  MemoryLimits limits_;
  Estimate estimate_;
};

}  // namespace

Estimate MakeEstimate(const EstimateOptions& options) {
  CheckOptions(options);
  return Estimator(options).Run();
}

}  // namespace lazytrain
