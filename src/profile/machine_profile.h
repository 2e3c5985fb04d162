// What this machine can do, measured: link and memory bandwidths, update rates, and the time of
// every op of a model.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "model/graph.h"
#include "plan/cost_model.h"

namespace lazytrain {

// Rates of copies (each direction alone; the slower of both together counts), of host memory, of
// updates on host and device. `given` stands for what cannot be measured. Takes about a second and
// 300 MB.
HardwareRates MeasureRates(Device& device, const HardwareRates& given);

// Times every op of the loss chain that the device can run, forward and backward, on `rows` (those
// of a micro-batch; fewer on slow devices: costs scale with each op's own cost function). Operands
// hold made-up values. Ops for planning only keep their estimates by the rates.
void MeasureOps(Device& device, const ModelGraph& model, const RowCounts& rows, CostModel& cost);

}  // namespace lazytrain
