// Time for measuring how long something takes.
#pragma once

#include <chrono>

namespace lazytrain {

// Seconds since some moment; never goes back.
inline double SecondsNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace lazytrain
