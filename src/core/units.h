// Bytes as people write them. GB is 1e9 bytes everywhere in this project.
#pragma once

#include <cstdint>
#include <string>

namespace lazytrain {

inline constexpr int64_t kBytesPerGB = 1'000'000'000;

// Every buffer in an arena starts at a multiple of this, so that neither a schedule nor a packing
// can change which code path a kernel takes.
inline constexpr int64_t kAlignment = 256;

inline constexpr int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

inline constexpr int64_t CeilDiv(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

// Nearest byte.
int64_t BytesFromGB(double gb);
double ToGB(int64_t bytes);

// The smallest number of GB with six digits behind the point that holds `bytes`: what to type in as
// a cap.
double RoundUpToGB(int64_t bytes);

// "12 B", "3.42 kB", "1.28 MB", "70.00 GB".
std::string FormatBytes(int64_t bytes);

// "850 us", "12.3 ms", "4.21 s", "3 h 12 min".
std::string FormatSeconds(double seconds);

}  // namespace lazytrain
