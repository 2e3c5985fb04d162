#include "train/run_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/hash.h"
#include "core/log.h"
#include "core/units.h"
#include "ops/kernel.h"
#include "program/persistent.h"
#include "train/believed_costs.h"
#include "train/device_choice.h"
#include "train/gemm_table.h"
#include "train/memory_limits.h"
#include "train/plan_inputs.h"
#include "train/trained_graph.h"

namespace lazytrain {
namespace {

std::string ScheduleSpec(const Config& config) {
  const MemorySettings& memory = config.memory;
  if (memory.schedule == "interval") return fmt::format("interval:{}", memory.checkpoint_interval);
  return memory.schedule;
}

bool IsSolved(const Config& config) {
  return config.memory.schedule == "solve" || config.memory.schedule == "paper";
}

// What no schedule changes: said before any is looked for.
void CheckStore(const Config& config, int64_t store) {
  const int64_t available = HostMemory(config);
  if (store <= available) return;
  throw UsageError(
      "{}: weights, gradients and optimizer states take {} of host memory, {} too many: there are "
      "{}; "
      "take a smaller model or a machine with {} GB",
      config.Place("memory.host_memory_gb"), FormatBytes(store), FormatBytes(store - available),
      FormatBytes(available), std::ceil(1.08 * static_cast<double>(store) / 1e9));
}

Schedule MakeSchedule(const Config& config, const ModelGraph& model, const Capacity& capacity) {
  Schedule schedule = ScheduleFromSpec(ScheduleSpec(config), model, capacity);
  if (config.memory.passes) {
    const int64_t passes = *config.memory.passes;
    if (passes > capacity.micro_batches) {
      throw UsageError("{}: {} passes, but a step has at most {} micro-batches",
                       config.Place("memory.passes"), passes, capacity.micro_batches);
    }
    schedule.passes = EvenPasses(capacity.micro_batches, passes);
  }
  if (config.optimizer.update == "device") UpdateOnDevice(schedule);
  CheckSchedule(schedule, model, capacity, schedule.name);
  return schedule;
}

// A schedule file may come from a run whose bits this one cannot reproduce; that is no error, but
// the user should know.
void NoteKeyDifferences(const std::string& spec, const NumericsKey& key) {
  if (!std::filesystem::is_regular_file(spec)) return;
  const Json json = ReadJsonFile(spec);
  if (!json.contains("numerics_key")) return;
  const NumericsKey before = NumericsKey::FromJson(json.at("numerics_key"), spec);
  if (before == key) return;
  Note(
      "{}: numerics_key differs in {}: the bits of this run are not those of the run it was made "
      "for",
      spec, fmt::join(key.Differences(before), ", "));
}

// A schedule file in a run's folder comes with the algorithms that the run took.
void TakeGemmTable(const std::string& spec, Device& device) {
  if (!std::filesystem::is_regular_file(spec)) return;
  const Path table = Path(spec).parent_path() / kGemmTable;
  if (!std::filesystem::is_regular_file(table)) return;
  UseGemmTable(table, device, KernelsFor(device).libraries());
}

NumericsKey MakeKey(const Config& config, const ModelGraph& model, const Schedule& schedule,
                    const Capacity& capacity, DType gradient_dtype, const Device& device) {
  NumericsKey key;
  key.device = device.backend();
  // The virtual accelerator's bits are those of any host; a GPU's depend on its model.
  if (device.backend() != "cpu") key.device += ": " + device.description();
  key.libraries = KernelsFor(device).libraries();
  Digest ops;
  for (const Segment& segment : model.loss) {
    for (const OpNode& node : segment.graph->nodes) ops.Add(node.op->Signature());
  }
  key.ops = ops.Hex();
  key.micro_batch_tokens = schedule.micro_batch_tokens;
  key.chunk_tokens = capacity.chunk_tokens;
  key.gradients = gradient_dtype == DType::kBF16 ? "bf16" : "fp32";
  if (gradient_dtype == DType::kBF16) key.passes = schedule.passes;
  key.clip = config.optimizer.clip;
  key.optimizer = fmt::format("adamw, fp32 moments, {}",
                              model.dtype == DType::kBF16 ? "split32 master" : "fp32 weights");
  return key;
}

void CheckSequenceLength(const Config& config, const HubConfig& hub, const ModelGraph& model) {
  if (config.dataset.max_seq_len > model.max_positions) {
    throw UsageError("{}: {} tokens, but the model's context is {} ({}: max_position_embeddings)",
                     config.Place("dataset.max_seq_len"), config.dataset.max_seq_len,
                     model.max_positions, hub.place());
  }
}

void CheckDeviceMemory(const Config& config, const RunPlan& plan) {
  if (plan.device_total() <= plan.device_cap) return;
  throw UsageError(
      "{}: {} GB of device memory are too little for this model under schedule '{}' with "
      "micro-batches of {} tokens; the smallest that works is {:.6f} GB (or lower "
      "memory.checkpoint_interval, memory.micro_batch_tokens or dataset.max_seq_len)",
      config.Place("memory.device_memory_gb"), config.memory.device_memory_gb,
      plan.programs->schedule().name, plan.programs->schedule().micro_batch_tokens,
      RoundUpToGB(plan.device_total()));
}

// No schedule fits: the cap with which one does.
[[noreturn]] void RefusePlan(const Config& config, const RunPlan& plan, const SearchInput& input) {
  constexpr double kSeconds = 10;
  const MemoryLimits limits([&](int64_t) { return input; }, 1, kSeconds);
  const double enough = limits.EnoughDevice(1, {static_cast<double>(input.device_bytes),
                                                static_cast<double>(input.host_activation_bytes)}) +
                        static_cast<double>(plan.device_cap - plan.device_budget);
  const std::string others =
      "dataset.max_seq_len, training.batch_size or memory.micro_batch_tokens";
  if (enough == kInfinity) {
    throw UsageError(
        "{}: no schedule of this model fits {} GB of device memory, nor more with {} of host "
        "memory "
        "for activations; raise memory.host_memory_gb too, or lower {}",
        config.Place("memory.device_memory_gb"), config.memory.device_memory_gb,
        FormatBytes(input.host_activation_bytes), others);
  }
  throw UsageError(
      "{}: no schedule of this model fits {} GB of device memory, {} too few: with {:.6g} GB one "
      "does; raise it, or lower {}",
      config.Place("memory.device_memory_gb"), config.memory.device_memory_gb,
      FormatBytes(static_cast<int64_t>(enough) - plan.device_cap),
      RoundUpToGB(static_cast<int64_t>(enough)), others);
}

void CheckHostMemory(const Config& config, const RunPlan& plan) {
  const int64_t available = HostMemory(config);
  if (plan.host_bytes() <= available) return;
  throw UsageError(
      "{}: the run needs {} of host memory (weights, gradients, optimizer states, activations); "
      "there are {}; take a smaller model or a machine with more",
      config.Place("memory.host_memory_gb"), FormatBytes(plan.host_bytes()),
      FormatBytes(available));
}

}  // namespace

std::unique_ptr<Device> OpenDevice(const Config& config) {
  return OpenDevice(config.model.device, false, config.hardware.throttle,
                    config.hardware.host_gbps.value_or(0.0) * 1e9);
}

RunPlan MakeRunPlan(const Config& config, const HubConfig& hub, Device& device) {
  TakeGemmTable(ScheduleSpec(config), device);
  RunPlan plan;
  plan.dtype = DTypeFromName(config.model.dtype, config.Place("model.dtype"));
  ModelGraph model = BuildTrainedGraph(hub, plan.dtype);
  CheckSequenceLength(config, hub, model);
  ProgramSetOptions options;
  const std::string& gradients = config.optimizer.gradients;
  const bool bf16 = gradients == "bf16" || (gradients == "auto" && plan.dtype == DType::kBF16);
  options.gradient_dtype = bf16 ? DType::kBF16 : DType::kF32;
  plan.device_cap = BytesFromGB(config.memory.device_memory_gb);
  Capacity capacity = CapacityOf(config);
  Schedule schedule;
  const int64_t store = StoreBytes(model, {true, options.gradient_dtype}, capacity);
  CheckStore(config, store);
  BelievedCosts believed =
      FindCosts(config, device, model,
                IsSolved(config) ? CapacitiesOf(config) : std::vector<Capacity>{capacity});
  plan.cost = std::move(believed.cost);
  plan.cost_origin = std::move(believed.origin);
  const int64_t activations = HostActivationBytes(config, store);
  plan.device_budget = plan.device_cap - device.UsedBytesWith(store + activations);
  if (IsSolved(config)) {
    const SearchInput input =
        MakeSearchInput(config, model, {true, options.gradient_dtype}, plan.cost,
                        &KernelsFor(device), plan.device_budget, activations);
    plan.search = SearchSchedule(input);
    if (!plan.search->fits) RefusePlan(config, plan, input);
    capacity = plan.search->capacity;
    schedule = plan.search->schedule;
    schedule.name = config.memory.schedule;
  } else {
    schedule = MakeSchedule(config, model, capacity);
  }
  options.training = capacity;
  options.kernels = &KernelsFor(device);
  plan.key = MakeKey(config, model, schedule, capacity, options.gradient_dtype, device);
  NoteKeyDifferences(ScheduleSpec(config), plan.key);
  options.tuning = {&plan.cost, plan.device_budget};
  plan.programs = std::make_unique<ProgramSet>(std::move(model), std::move(schedule), options);
  plan.device_fixed = device.UsedBytesWith(plan.host_bytes());

  const OptimizerSettings& optimizer = config.optimizer;
  plan.engine.adamw = {optimizer.beta1, optimizer.beta2, optimizer.eps,
                       config.training.weight_decay};
  plan.engine.max_grad_norm = optimizer.clip == "off" ? 0.0 : config.training.max_grad_norm;
  plan.demand = WithGivenRates(CostModel(HardwareRates::Unlimited()), config.hardware);
  CheckDeviceMemory(config, plan);
  CheckHostMemory(config, plan);
  return plan;
}

void Replace(RunPlan& plan, PlannedStep step, const CostModel& cost) {
  const bool same_passes = plan.key.passes.empty() || plan.key.passes == step.schedule.passes;
  if (!same_passes || step.schedule.micro_batch_tokens != plan.key.micro_batch_tokens) {
    throw InternalError("a schedule of another numerics key");
  }
  plan.cost = cost;
  ProgramSetOptions options = plan.programs->options();
  options.tuning = {&plan.cost, plan.device_budget};
  Schedule schedule = step.schedule;
  schedule.name = plan.programs->schedule().name;
  ModelGraph model = plan.programs->model();
  plan.search = std::move(step);
  plan.programs = std::make_unique<ProgramSet>(std::move(model), std::move(schedule), options);
}

Json DescribePlan(const RunPlan& plan, const CostModel& cost, double predicted_seconds) {
  const ProgramSet& programs = *plan.programs;
  Json json = ScheduleToJson(programs.schedule(), programs.model());
  const Capacity& capacity = programs.training().capacity;
  json["capacity"] = {{"micro_batches", capacity.micro_batches},
                      {"micro_batch_tokens", capacity.micro_batch_tokens},
                      {"chunk_tokens", capacity.chunk_tokens},
                      {"documents", capacity.documents},
                      {"longest_document", capacity.longest_document}};
  json["numerics_key"] = plan.key.ToJson();
  const HardwareRates& rates = cost.rates();
  json["hardware"] = {{"h2d_gbps", rates.h2d_bytes / 1e9},
                      {"d2h_gbps", rates.d2h_bytes / 1e9},
                      {"host_gbps", rates.host_bytes / 1e9},
                      {"host_update_parameters_per_second", rates.host_update}};
  json["predicted"] = {{"step_seconds", predicted_seconds},
                       {"device_bytes", plan.device_bytes()},
                       {"device_lower_bound_bytes", programs.training().device_lower_bound},
                       {"host_bytes", programs.PeakBytes(kHostSpace)},
                       {"store_bytes", programs.PeakBytes(kStoreSpace)}};
  return json;
}

}  // namespace lazytrain
