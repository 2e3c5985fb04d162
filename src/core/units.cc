#include "core/units.h"

#include <fmt/core.h>

#include <cmath>

namespace lazytrain {

int64_t BytesFromGB(double gb) { return std::llround(gb * static_cast<double>(kBytesPerGB)); }

double ToGB(int64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(kBytesPerGB); }

double RoundUpToGB(int64_t bytes) { return std::ceil(ToGB(bytes) * 1e6) / 1e6; }

std::string FormatBytes(int64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  const char* unit = "B";
  for (const char* next : {"kB", "MB", "GB"}) {
    if (value < 1000.0) break;
    value /= 1000.0;
    unit = next;
  }
  return fmt::format("{:.2f} {}", value, unit);
}

std::string FormatSeconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1.0) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 100.0) return fmt::format("{:.2f} s", seconds);
  const auto minutes = static_cast<int64_t>(seconds / 60.0);
  if (minutes < 60) return fmt::format("{} min {:.0f} s", minutes, seconds - 60.0 * minutes);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

}  // namespace lazytrain
