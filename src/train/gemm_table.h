// gemm_table.json: which algorithm the libraries took for each matrix product of a run.
//
// On one GPU a library takes the same for the same product every time, so nobody has to keep the
// table for a run's bits; it shows what was taken, and a run that starts from the schedule.json of
// another takes the gemm_table.json beside it, so that both have the same.
#pragma once

#include <string>

#include "core/file.h"
#include "device/device.h"

namespace lazytrain {

inline constexpr const char* kGemmTable = "gemm_table.json";

// Writes the device's choices so far; no file where no library chooses. `libraries`: as in the
// numerics key.
void WriteGemmTable(const Path& path, const Device& device, const std::string& libraries);

// Has the device take the choices in the file, unless they are another GPU's or another library's,
// which it says. Throws Error naming the file if it is no such table.
void UseGemmTable(const Path& path, Device& device, const std::string& libraries);

}  // namespace lazytrain
