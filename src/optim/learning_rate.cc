#include "optim/learning_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "core/error.h"

namespace lazytrain {
namespace {

// What happened since warmup: steps that are over and steps there are.
struct Progress {
  double over;
  double steps;
};

double Constant(const Progress&, double) { return 1.0; }
double Linear(const Progress& p, double) { return std::max(0.0, 1.0 - p.over / p.steps); }
double Cosine(const Progress& p, double) {
  return 0.5 * (1.0 + std::cos(std::numbers::pi * std::min(1.0, p.over / p.steps)));
}
double WarmupStableDecay(const Progress& p, double total) {
  const double decay = std::clamp(total / 10.0, 1.0, p.steps);
  return std::clamp((p.steps - p.over) / decay, 0.0, 1.0);
}

struct Scheduler {
  std::string_view name;
  double (*factor)(const Progress& progress, double total_steps);
};
constexpr std::array kSchedulers = {Scheduler{"constant", Constant}, Scheduler{"linear", Linear},
                                    Scheduler{"cosine", Cosine},
                                    Scheduler{"wsd", WarmupStableDecay}};

}  // namespace

std::vector<std::string_view> LearningRateSchedulers() {
  std::vector<std::string_view> names;
  names.reserve(std::size(kSchedulers));
  for (const Scheduler& scheduler : kSchedulers) names.push_back(scheduler.name);
  return names;
}

double LearningRateAt(const LearningRateSettings& settings, int64_t step) {
  if (step < settings.warmup_steps) {
    return settings.peak * static_cast<double>(step) / static_cast<double>(settings.warmup_steps);
  }
  const Progress progress = {
      static_cast<double>(step - settings.warmup_steps),
      static_cast<double>(std::max<int64_t>(1, settings.total_steps - settings.warmup_steps))};
  for (const Scheduler& scheduler : kSchedulers) {
    if (scheduler.name != settings.scheduler) continue;
    return settings.peak * scheduler.factor(progress, static_cast<double>(settings.total_steps));
  }
  throw UsageError("training.lr_scheduler: there is no scheduler '{}'; these are: {}",
                   settings.scheduler, fmt::join(LearningRateSchedulers(), ", "));
}

}  // namespace lazytrain
