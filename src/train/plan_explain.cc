#include "train/plan_explain.h"

#include <algorithm>
#include <filesystem>
#include <functional>

namespace lazytrain {
namespace {

struct Resource {
  std::string name;
  std::function<void(PlannerOptions&, HardwareRates&)> more;
};

std::vector<Resource> Resources() {
  return {
      {"1 GB more of device memory",
       [](PlannerOptions& options, HardwareRates&) { options.budget.device_bytes += 1e9; }},
      {"1 GB more of host memory for activations",
       [](PlannerOptions& options, HardwareRates&) {
         options.budget.host_activation_bytes += 1e9;
       }},
      {"A tenth more link bandwidth",
       [](PlannerOptions&, HardwareRates& rates) {
         rates.h2d_bytes *= 1.1;
         rates.d2h_bytes *= 1.1;
       }},
      {"A tenth more host memory bandwidth",
       [](PlannerOptions&, HardwareRates& rates) { rates.host_bytes *= 1.1; }},
      {"clip: previous instead of exact",
       [](PlannerOptions& options, HardwareRates&) { options.space.clip = ClipMode::kPrevious; }},
  };
}

// How much lower the bound of the plan's passes gets.
std::vector<ResourcePrice> PricesOf(const RunPlan& plan) {
  const ProgramSet& programs = *plan.programs;
  const PlannedStep& search = *plan.search;
  PlannerOptions options = search.options;
  const auto bound = [&](const PlannerOptions& with, const CostModel& cost) {
    return BoundOf(programs.model(), cost, with, search.capacity, search.schedule.passes);
  };
  const double now = bound(options, plan.cost);
  std::vector<ResourcePrice> prices;
  for (const Resource& resource : Resources()) {
    PlannerOptions with = options;
    CostModel cost = plan.cost;
    resource.more(with, cost.rates());
    prices.push_back({resource.name, std::max(0.0, now - bound(with, cost))});
  }
  return prices;
}

}  // namespace

ExplainedPlan::ExplainedPlan(const Config& config, const RunPlan& plan) {
  const ProgramSet& programs = *plan.programs;
  const Program& program = programs.training();
  const StepRows rows = FullStep(program.capacity);
  timeline_ = Simulate(program, rows, plan.cost);
  report_.title = std::filesystem::path(config.model.name).filename().string();
  report_.model = &programs.model();
  report_.schedule = &programs.schedule();
  report_.program = &program;
  report_.timeline = &timeline_;
  report_.device_cap = static_cast<double>(plan.device_cap);
  report_.device_bytes = plan.device_total();
  report_.activation_bytes = programs.PeakBytes(kHostSpace);
  report_.store_bytes = programs.PeakBytes(kStoreSpace);
  for (const RowCounts& batch : rows) report_.tokens += static_cast<double>(batch.tokens);
  report_.recompute_seconds = RecomputeSeconds(program, timeline_);
  if (!plan.search || !plan.search->plan.feasible) return;
  report_.plan = &plan.search->plan;
  report_.prices = PricesOf(plan);
}

}  // namespace lazytrain
