// Supervised fine-tuning: the command `lazytrain sft`.
#pragma once

#include <string>
#include <vector>

#include "train/config/config.h"

namespace lazytrain {

// Plans, trains, exports. Returns the exit status: 0, or 130 when a signal stopped the run (after
// its model was written).
int RunSft(const Config& config);

}  // namespace lazytrain
