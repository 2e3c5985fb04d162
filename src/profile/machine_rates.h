// What this machine moves and updates a second, measured: links, host memory, device memory, AdamW.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "plan/cost_model.h"

namespace lazytrain {

// Bytes a second, where nothing else is said. 0: not measured.
struct MachineRates {
  double h2d = 0;  // host to device, alone
  double d2h = 0;
  double h2d_both = 0;  // while the other direction copies, too
  double d2h_both = 0;
  double host = 0;               // host memory, alone: a = b + s c
  double host_beside_links = 0;  // the same while both links copy
  double host_update = 0;        // parameters a second of AdamW on the host, alone
  double host_update_beside_links = 0;
  double host_shared = 0;    // links and updates together, all of them at work
  double device_copy = 0;    // device memory, read and written
  double device_update = 0;  // parameters a second of AdamW on the device
  double gemm_flops = 0;     // FLOP/s of matrix products
  double nvme_write = 0;
  double nvme_read = 0;

  // What the planner counts with: each direction of the link as beside the other; host memory as
  // what links and updates together got of it, so that beside the links an update has what it had
  // here.
  HardwareRates ForPlanning() const;
};

// Everything but gemm_flops and NVMe. Takes at most about `device_bytes` of device memory, and a
// few seconds on a GPU, a few tenths of a second on the virtual accelerator.
MachineRates MeasureRates(Device& device, int64_t device_bytes);

}  // namespace lazytrain
