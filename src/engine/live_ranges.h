// Watches over memory while a program runs: nothing outside persistent buffers may be touched but
// between a buffer's first and last use. For tests and `verify`; the same run without it gives the
// same bits.
#pragma once

#include <atomic>
#include <vector>

#include "engine/run_memory.h"
#include "program/program.h"

namespace lazytrain {

class LiveRanges {
 public:
  // Releases everything that no program keeps; buffers that are filled before a run or read after
  // it live all the while. Both arguments must outlive it.
  LiveRanges(const Program& program, const RunMemory& memory);

  // To be called on the instruction's lane, before and after its work. Begin claims buffers that it
  // is the first to use, and throws InternalError if somebody wrote to their memory while it was
  // nobody's. End releases those that nobody uses any more.
  void Begin(int instruction);
  void End(int instruction);

  // After the run: memory that is nobody's was left alone. Throws InternalError if not.
  void CheckUnused() const;

 private:
  MemoryBlock& BlockOf(const Buffer& buffer) const { return memory_.block(buffer.space); }

  const Program& program_;
  const RunMemory& memory_;
  std::vector<int> first_use_;               // for each buffer, an instruction; -1: not watched
  std::vector<std::atomic<int>> uses_left_;  // for each buffer
  std::vector<bool> outside_;                // filled before the run or read after it
};

}  // namespace lazytrain
