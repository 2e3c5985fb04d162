// How much memory of the device is taken in each slot, and what transfers that are issued earlier,
// or whose memory is kept longer, would take besides.
#pragma once

#include <cstdint>
#include <vector>

#include "program/placement.h"
#include "program/program.h"

namespace lazytrain {

class SlotMemory {
 public:
  // What `program` takes if every transfer to the device is issued in the slot that wants it, and
  // what is sent off is free at the end of the slot that sent it, whatever its own timing.
  SlotMemory(const Program& program, int slots);

  // Bytes that a slot holds at its fullest.
  int64_t bytes(int slot) const { return bytes_[slot]; }

  // The two changes, a slot at a time. Each returns whether `most` bytes are enough, and counts the
  // bytes only then: what `wanted` wants is there in `slot`, an earlier one, too; the memory of
  // what `sent` sends off is kept to the end of `slot`, a later one.
  bool FetchBy(int wanted, int slot, int64_t most);
  bool KeepUntil(int sent, int slot, int64_t most);

 private:
  struct Sent {
    int last = 0;  // the slot of the buffer's last use
    int64_t bytes = 0;
  };

  // `begins`: where each slot begins, as a position, and where the last ends.
  void CountBytes(const Program& program, const std::vector<Lifetime>& lives,
                  const std::vector<int>& begins);
  bool Add(int slot, int64_t bytes, int64_t most);

  std::vector<int64_t> bytes_;
  std::vector<int64_t> wanted_;          // by slot: bytes fetched for it
  std::vector<std::vector<Sent>> sent_;  // by slot: what leaves the device in it
};

}  // namespace lazytrain
