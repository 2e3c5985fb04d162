// How long a model's ops take on a device, measured as a step runs them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"
#include "model/graph.h"
#include "ops/op.h"

namespace lazytrain {

struct OpTime {
  std::string signature;  // Op::Signature
  Direction direction = Direction::kForward;
  RowCounts rows;
  double seconds = 0;
};

struct OpTiming {
  double busy_seconds = 0;  // of matrix products before anything counts
  double seconds = 0.2;     // of rounds
  int64_t least_rounds = 3;
  int64_t most_rounds = 50;
  int64_t most_repeats = 1;  // of a shape of segment in a round
};

// A GPU gets to the clock that its power limit leaves it first, which takes a while; the virtual
// accelerator has neither.
OpTiming OpTimingFor(const Device& device);

// Every op of the loss chain that the device can run, forward and backward, on `rows`. Ops run in
// rounds, in a step's order and without a stop between them, so that power and clocks are a step's;
// the median over the rounds counts. Throws Error if OpCalls::Bytes of device memory cannot be had.
std::vector<OpTime> MeasureOps(Device& device, const ModelGraph& model, const RowCounts& rows,
                               const OpTiming& timing);

// Runs every op once, so that the device has loaded what it loads at a first call and
// Device::UsedBytes counts it.
void LoadOps(Device& device, const ModelGraph& model, const RowCounts& rows);

// The sizes to measure a model's ops with: those of a micro-batch, fewer tokens where the device is
// slow (costs scale with each op's own cost function) or where operands would take more than
// `device_bytes`. Without tokens where not even a few fit.
RowCounts RowsToMeasure(const Device& device, const ModelGraph& model, const RowCounts& micro_batch,
                        int64_t device_bytes);

// FLOP/s that the measured linear ops reach together; 0 where there are none.
double GemmRate(const ModelGraph& model, const std::vector<OpTime>& times);

}  // namespace lazytrain
