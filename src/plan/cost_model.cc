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

double CostModel::Estimate(const Op& op, Direction direction, const RowCounts& rows) const {
  const OpCost cost = op.Cost(direction, rows);
  return std::max(cost.flops / rates_.gemm_flops, cost.bytes / rates_.device_bytes);
}

void CostModel::SetMeasured(const Op& op, Direction direction, const RowCounts& rows,
                            double seconds) {
  measured_[{op.Signature(), direction}] = {seconds, Estimate(op, direction, rows)};
}

double CostModel::OpSeconds(const Op& op, Direction direction, const RowCounts& rows) const {
  const double estimate = Estimate(op, direction, rows);
  const auto found = measured_.find({op.Signature(), direction});
  if (found == measured_.end()) return rates_.launch_seconds + estimate;
  const Measured& measured = found->second;
  return measured.estimate > 0 ? measured.seconds * estimate / measured.estimate : measured.seconds;
}

}  // namespace lazytrain
