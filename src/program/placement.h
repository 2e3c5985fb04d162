// Where buffers lie: buffers that are never alive at the same time may share memory.
#pragma once

#include <cstdint>
#include <vector>

#include "program/persistent.h"
#include "program/program.h"

namespace lazytrain {

// A buffer's life, as positions in the program.
struct Lifetime {
  int first = -1;  // -1: never used
  int last = -1;
};

// From the first to the last instruction that touches each buffer. Inputs and results of the
// program live from its begin and to its end: somebody outside touches them.
std::vector<Lifetime> Lifetimes(const Program& program);

// Gives every buffer that is not persistent an offset behind the persistent ones of its space, and
// sets the program's peaks. `held_until`: for each buffer a position that its life had better
// reach, so that nobody waits for its memory. It does not where the device's peak would be above
// `device_bytes` (0: no limit); nor does the peak keep to that where what has to be there is more.
void PlaceBuffers(Program& program, const PersistentLayout& persistent,
                  const std::vector<int>& held_until, int64_t device_bytes);

}  // namespace lazytrain
