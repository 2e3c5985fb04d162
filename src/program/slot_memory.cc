#include "program/slot_memory.h"

#include <algorithm>

#include "program/placement.h"

namespace lazytrain {

SlotMemory::SlotMemory(const Program& program, int slots)
    : bytes_(slots, 0), wanted_(slots, 0), sent_(slots) {
  const auto count = static_cast<int>(program.instructions.size());
  std::vector<int> begins(slots + 1, count);  // positions; the instructions of slots are in order
  for (int i = count; i-- > 0;) begins[program.instructions[i].slot] = i;
  for (int k = slots; k-- > 0;) begins[k] = std::min(begins[k], begins[k + 1]);
  std::vector<Lifetime> lives = Lifetimes(program);
  std::vector<bool> leaves(program.buffers.size(), false);
  const auto moves = [&](int b) {
    const Buffer& buffer = program.buffers[b];
    return buffer.space == kDeviceSpace && !buffer.persistent;
  };
  for (int i = 0; i < count; ++i) {
    const Instruction& instruction = program.instructions[i];
    const LaneKind kind = program.lanes[instruction.lane].kind;
    for (const int b : instruction.writes) {
      if (kind != LaneKind::kHostToDevice || !moves(b) || lives[b].first != i) continue;
      lives[b].first = std::max(i, begins[instruction.wanted]);
      wanted_[instruction.wanted] += program.buffers[b].bytes;
    }
    for (const int b : instruction.reads) {
      if (kind != LaneKind::kDeviceToHost || !moves(b) || leaves[b]) continue;
      leaves[b] = true;
      const int last = program.instructions[lives[b].last].slot;
      sent_[instruction.slot].push_back({last, program.buffers[b].bytes});
      lives[b].last = std::max(lives[b].last, begins[last + 1] - 1);
    }
  }
  std::vector<int64_t> change(count + 1, 0);
  int64_t alive = 0;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.space != kDeviceSpace) continue;
    if (buffer.persistent) {
      alive += buffer.bytes;
    } else if (lives[b].first >= 0) {
      change[lives[b].first] += buffer.bytes;
      change[lives[b].last + 1] -= buffer.bytes;
    }
  }
  for (int k = 0, i = 0; k < slots; ++k) {
    bytes_[k] = alive;
    for (; i < begins[k + 1]; ++i) bytes_[k] = std::max(bytes_[k], alive += change[i]);
  }
}

bool SlotMemory::FetchBy(int wanted, int slot, int64_t most) {
  return Add(slot, wanted_[wanted], most);
}

bool SlotMemory::KeepUntil(int sent, int slot, int64_t most) {
  int64_t bytes = 0;
  for (const Sent& buffer : sent_[sent]) {
    if (buffer.last < slot) bytes += buffer.bytes;
  }
  return Add(slot, bytes, most);
}

bool SlotMemory::Add(int slot, int64_t bytes, int64_t most) {
  if (bytes > 0 && bytes_[slot] + bytes > most) return false;
  bytes_[slot] += bytes;
  return true;
}

}  // namespace lazytrain
