#include "plan/cost_model.h"

#include <algorithm>

namespace lazytrain {

HardwareRates HardwareRates::Unlimited() {
  constexpr double kEndless = 1e30;
  return {.h2d_bytes = kEndless,
          .d2h_bytes = kEndless,
          .host_bytes = kEndless,
          .nvme_read_bytes = kEndless,
          .nvme_write_bytes = kEndless,
          .gemm_flops = kEndless,
          .device_bytes = kEndless,
          .host_update = kEndless,
          .device_update = kEndless,
          .launch_seconds = 0.0};
}

double CostModel::Estimate(const OpCost& cost) const {
  return std::max(cost.flops / rates_.gemm_flops, cost.bytes / rates_.device_bytes);
}

void CostModel::SetMeasured(const Op& op, Direction direction, const RowCounts& rows,
                            double seconds) {
  std::vector<Measured>& points = measured_[{op.Signature(), direction}];
  const OpCost cost = op.Cost(direction, rows);
  auto at = std::find_if(points.begin(), points.end(), [&](const Measured& point) {
    return point.cost.flops == cost.flops && point.cost.bytes == cost.bytes;
  });
  if (at == points.end()) at = points.insert(at, {cost, 0});
  at->seconds = seconds;
  std::sort(points.begin(), points.end(), [](const Measured& a, const Measured& b) {
    return std::pair(a.cost.flops, a.cost.bytes) < std::pair(b.cost.flops, b.cost.bytes);
  });
}

void CostModel::Correct(const Op& op, Direction direction, const RowCounts& rows, double ratio) {
  const double believed = OpSeconds(op, direction, rows);
  const auto found = measured_.find({op.Signature(), direction});
  if (found == measured_.end()) {
    SetMeasured(op, direction, rows, ratio * believed);
    return;
  }
  for (Measured& point : found->second) point.seconds *= ratio;
}

double CostModel::OpSeconds(const Op& op, Direction direction, const RowCounts& rows) const {
  const double estimate = Estimate(op.Cost(direction, rows));
  const auto found = measured_.find({op.Signature(), direction});
  if (found == measured_.end()) return rates_.launch_seconds + estimate;
  const std::vector<Measured>& points = found->second;
  const Measured* below = nullptr;
  for (const Measured& point : points) {
    const double here = Estimate(point.cost);
    if (here <= 0) return point.seconds;
    if (here >= estimate) {
      if (below == nullptr) return point.seconds * estimate / here;
      const double from = Estimate(below->cost);
      const double share = here > from ? (estimate - from) / (here - from) : 1.0;
      return below->seconds + share * (point.seconds - below->seconds);
    }
    below = &point;
  }
  return below->seconds * estimate / Estimate(below->cost);
}

}  // namespace lazytrain
