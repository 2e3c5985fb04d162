// What about the host slows transfers to a GPU down.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/file.h"

namespace lazytrain::cuda {

// One sentence with a remedy for each finding: transparent huge pages are off (pinning memory takes
// many times as long), or the host has several NUMA nodes and the GPU hangs on one of them. `bus`
// is the GPU's PCI address, as the driver writes it ("0000:1B:00.0"). The system's files are read
// below `root`; what cannot be read is no finding.
std::vector<std::string> HostAdvice(const Path& root, std::string_view bus);

}  // namespace lazytrain::cuda
