// How long things take, from plain numbers about the machine: rates given by hand or measured.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ops/op.h"

namespace lazytrain {

// Rates in bytes, FLOPs or parameters a second.
struct HardwareRates {
  double h2d_bytes = 10e9;
  double d2h_bytes = 10e9;
  double host_bytes = 20e9;  // host memory, shared by links and updates
  double nvme_read_bytes = 2e9;
  double nvme_write_bytes = 2e9;
  double gemm_flops = 50e9;    // what the device's matrix products reach
  double device_bytes = 10e9;  // device memory
  double host_update = 300e6;  // parameters updated on the host
  double device_update = 300e6;
  double launch_seconds = 5e-6;  // of any instruction

  // A machine on which nothing takes time: what a throttle starts from.
  static HardwareRates Unlimited();
};

class CostModel {
 public:
  CostModel() = default;
  explicit CostModel(const HardwareRates& rates) : rates_(rates) {}

  const HardwareRates& rates() const { return rates_; }
  HardwareRates& rates() { return rates_; }

  // A measurement: the op took `seconds` on a micro-batch of these sizes. One of the same sizes is
  // replaced.
  void SetMeasured(const Op& op, Direction direction, const RowCounts& rows, double seconds);
  // The op takes `ratio` times what was believed for these sizes, and for others.
  void Correct(const Op& op, Direction direction, const RowCounts& rows, double ratio);

  // Calls between two measured sizes take what lies between on a line over the op's own cost
  // function, others scale with it; calls that were never measured take the longer of what their
  // FLOPs and their bytes take.
  double OpSeconds(const Op& op, Direction direction, const RowCounts& rows) const;

 private:
  struct Measured {
    OpCost cost;  // of the sizes measured
    double seconds = 0;
  };

  double Estimate(const OpCost& cost) const;

  HardwareRates rates_;
  // By cost, the smallest first.
  std::map<std::pair<std::string, Direction>, std::vector<Measured>> measured_;
};

}  // namespace lazytrain
