// Device memory that a CUDA driver takes for a process beside what it allocates. Seen on an H200
// with driver 580: 555 MB at the start, and while 107 to 230 GB of host memory are pinned, 0.2 to
// 0.45 GB more, within 6 MB of what is computed here.
#pragma once

#include <cstdint>

namespace lazytrain::cuda {

// The context and the kernels of this program and its libraries.
inline constexpr int64_t kContextBytes = 600'000'000;

// Tables of pinned host memory: 8 bytes for every page of 4 KiB, and tables of tables.
constexpr int64_t PinnedTableBytes(int64_t host_bytes) {
  if (host_bytes == 0) return 0;
  constexpr int64_t kSlack = int64_t{4} << 20;
  const int64_t entries = host_bytes / 4096 * 8;
  return entries + entries / 64 + kSlack;
}

}  // namespace lazytrain::cuda
