// Prints the table in docs/plans.md: plans of large models under several budgets, by the planner's
// own numbers, beside MegaTrain's and the paper's schedules. Needs no weights and no GPU.
#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "model/model_builder.h"
#include "plan/planner.h"

namespace lazytrain {
namespace {

struct Case {
  const char* model;
  int64_t batch;  // documents of 1024 tokens
  double device_gb;
  double link_gbps;
  double host_activation_gb;
  double nvme_gb;
};

constexpr Case kCases[] = {
    {"Qwen3.6-27B", 72, 70, 45, 15, 32},  {"Qwen3.6-27B", 72, 24, 45, 15, 32},
    {"Qwen3.6-27B", 72, 40, 45, 15, 32},  {"Qwen3.6-27B", 72, 140, 45, 15, 32},
    {"Qwen3.6-27B", 72, 70, 12, 15, 32},  {"Qwen2.5-7B", 144, 70, 45, 15, 0},
    {"Qwen2.5-7B", 144, 81, 45, 15, 0},   {"Qwen2.5-7B", 144, 140, 45, 15, 0},
    {"GPT-OSS-120B", 72, 70, 45, 100, 0},
};

// How moments are stored; gradients are bfloat16, masters exact.
struct Moments {
  const char* name;
  double bytes;  // both of a parameter
};

constexpr Moments kFloat32 = {"fp32", 8};
constexpr Moments kEightBit = {"8-bit", 2.03};

constexpr int64_t kLength = 1024;

struct Row {
  std::string name;
  Moments moments = kFloat32;
  StepEstimate estimate;
  Schedule schedule;
  int64_t micro_batch = 0;
  double gap = -1;  // negative: nothing was searched
  double seconds = 0;
};

class Table {
 public:
  Table(const std::string& configs, double seconds) : configs_(configs), seconds_(seconds) {}

  void Print(const Case& of) {
    of_ = of;
    GraphOptions graph;
    graph.dtype = DType::kBF16;
    graph.head_chunk_rows = 1024;
    model_ = BuildModelGraph(HubConfig::FromFolder(configs_ + "/" + of.model), graph);
    const double parameters = static_cast<double>(model_.ParameterCount());
    fmt::print("\n{}, batch {}, {:.0f} GB of device, links {:.0f} GB/s, {:.0f} GB of host{}:\n\n",
               of.model, of.batch, of.device_gb, of.link_gbps, of.host_activation_gb,
               of.nvme_gb > 0 ? fmt::format(" and {:.0f} GB of NVMe", of.nvme_gb) : "");
    fmt::print(
        "weights and states: {:.0f} GB of host memory with fp32 moments, {:.0f} with 8-bit\n\n",
        14 * parameters / 1e9, 8.03 * parameters / 1e9);
    fmt::print(
        "| schedule | moments | passes x micro-batches of | step | tokens/s | recomputed | h2d, "
        "d2h "
        "GB | exposed update | gap | solved in |\n| --- | --- | --- | --- | --- | --- | --- | --- "
        "| --- | --- |\n");
    for (const Moments& moments : {kFloat32, kEightBit}) {
      Interval(moments);
      Paper(moments);
      Ours(moments, ClipMode::kExact, "planned, exact");
      Ours(moments, ClipMode::kPrevious, "planned, previous");
    }
  }

 private:
  CostModel Costs() const {
    HardwareRates rates;
    rates.h2d_bytes = rates.d2h_bytes = of_.link_gbps * 1e9;
    rates.host_bytes = 60e9;
    rates.nvme_write_bytes = 2.3e9;
    rates.nvme_read_bytes = 1.7e9;
    rates.gemm_flops = 665e12;
    rates.device_bytes = 665e12 / 200;
    rates.device_update = rates.device_bytes / 26;
    rates.host_update = HardwareRates::Unlimited().host_update;
    return CostModel(rates);
  }

  Capacity CapacityOf(int64_t tokens) const {
    Capacity capacity;
    capacity.micro_batch_tokens = tokens;
    capacity.micro_batches = of_.batch * kLength / tokens;
    capacity.longest_document = kLength;
    capacity.documents = tokens / kLength;
    return capacity;
  }

  PlannerOptions Options(const Moments& moments) const {
    PlannerOptions options;
    options.states.moments = moments.bytes;
    options.budget.device_bytes = of_.device_gb * 1e9;
    options.budget.host_activation_bytes = of_.host_activation_gb * 1e9;
    options.budget.nvme_bytes = of_.nvme_gb * 1e9;
    options.space.nvme = of_.nvme_gb > 0;
    options.seconds = seconds_;
    for (const int64_t tokens : {16384, 8192, 4096}) {
      if (of_.batch * kLength % tokens == 0) options.capacities.push_back(CapacityOf(tokens));
    }
    return options;
  }

  void Interval(const Moments& moments) {
    const Capacity capacity = CapacityOf(8192);
    Row row;
    row.name = "interval 4";
    row.moments = moments;
    row.schedule = IntervalSchedule(model_, capacity, 4);
    row.micro_batch = capacity.micro_batch_tokens;
    const std::optional<StepEstimate> estimate =
        EstimateSchedule(model_, Costs(), Options(moments), capacity, row.schedule);
    if (estimate) row.estimate = *estimate;
    PrintRow(row);
  }

  void Paper(const Moments& moments) {
    PlannerOptions options = Options(moments);
    options.space.boundaries_only = true;
    options.space.residency = false;
    options.space.device_updates = false;
    options.passes = {1};
    Solve(options, moments, "paper's space");
  }

  void Ours(const Moments& moments, ClipMode clip, const char* name) {
    PlannerOptions options = Options(moments);
    options.space.clip = clip;
    Solve(options, moments, name);
  }

  void Solve(const PlannerOptions& options, const Moments& moments, const char* name) {
    const PlanResult result = PlanSchedule(model_, Costs(), options);
    Row row;
    row.name = name;
    row.moments = moments;
    if (result.feasible) {
      row.estimate = result.estimate;
      row.schedule = result.schedule;
      row.micro_batch = result.capacity.micro_batch_tokens;
      row.gap = result.gap();
    }
    row.seconds = result.solve_seconds;
    PrintRow(row);
  }

  void PrintRow(const Row& row) const {
    if (row.estimate.seconds == 0) {
      fmt::print("| {} | {} | does not fit | | | | | | | |\n", row.name, row.moments.name);
      std::fflush(stdout);
      return;
    }
    const StepEstimate& step = row.estimate;
    const std::string searched =
        row.gap < 0 ? " | " : fmt::format("{:.2f}% | {:.1f} s", 100 * row.gap, row.seconds);
    fmt::print(
        "| {} | {} | {} x {} | {:.2f} s | {:.0f} | {:.1f}% | {:.0f}, {:.0f} | {:.2f} s | {} |\n",
        row.name, row.moments.name, row.schedule.passes.size(), row.micro_batch, step.seconds,
        static_cast<double>(of_.batch * kLength) / step.seconds,
        100 * step.recompute / step.seconds, step.h2d_bytes / 1e9, step.d2h_bytes / 1e9,
        std::max(0.0, step.exposed_update), searched);
    std::fflush(stdout);
  }

  std::string configs_;
  double seconds_;
  Case of_{};
  ModelGraph model_;
};

}  // namespace
}  // namespace lazytrain

int main(int argc, char** argv) {
  if (argc < 2) {
    std::puts("Usage: plan_table FOLDER_OF_MODEL_CONFIGS [SECONDS_A_SEARCH]");
    return 2;
  }
  try {
    lazytrain::Table table(argv[1], argc > 2 ? std::stod(argv[2]) : 20.0);
    for (const auto& of : lazytrain::kCases) table.Print(of);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
