// Which instruction waits for which: whatever touches a buffer, or memory that was another
// buffer's, comes after what touched it before. Lanes keep the order within themselves.
#pragma once

#include <vector>

#include "program/program.h"

namespace lazytrain {

// Sets the waits of every instruction; none that other waits imply.
void AddWaits(Program& program);

// Looks at every pair of instructions that touch the same memory, at least one of them writing, and
// throws InternalError unless one certainly ends before the other starts. Written apart from
// AddWaits, as its check: it compares addresses, not buffers. Also refuses buffers that leave their
// space or overlap while both are in use.
void CheckOrder(const Program& program);

}  // namespace lazytrain
