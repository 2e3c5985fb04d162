// How fast a folder's disk writes and reads past the page cache.
#pragma once

#include <cstdint>

#include "core/file.h"

namespace lazytrain {

struct NvmeRates {
  double write = 0;  // bytes a second
  double read = 0;
};

// Writes and reads a file of about so many bytes with O_DIRECT, several blocks at once; nothing of
// it is left behind. Throws Error where the folder is none, its file system refuses O_DIRECT, or
// has no room.
NvmeRates MeasureNvme(const Path& folder, int64_t bytes);

}  // namespace lazytrain
