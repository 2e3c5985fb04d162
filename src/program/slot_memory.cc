#include "program/slot_memory.h"

#include <algorithm>

namespace lazytrain {
namespace {

// Where each slot begins, as a position in the program, and where the last ends.
std::vector<int> SlotBegins(const Program& program, int slots) {
  const auto count = static_cast<int>(program.instructions.size());
  std::vector<int> begins(slots + 1, count);
  for (int i = count; i-- > 0;) begins[program.instructions[i].slot] = i;
  for (int k = slots; k-- > 0;) begins[k] = std::min(begins[k], begins[k + 1]);  // empty ones
  return begins;
}

bool TakesRoom(const Buffer& buffer) { return buffer.space == kDeviceSpace && !buffer.persistent; }

}  // namespace

SlotMemory::SlotMemory(const Program& program, int slots)
    : bytes_(slots, 0), wanted_(slots, 0), sent_(slots) {
  const std::vector<int> begins = SlotBegins(program, slots);
  std::vector<Lifetime> lives = Lifetimes(program);
  std::vector<bool> leaves(program.buffers.size(), false);
  for (int i = 0; i < begins.back(); ++i) {
    const Instruction& instruction = program.instructions[i];
    const LaneKind kind = program.lanes[instruction.lane].kind;
    for (const int b : instruction.writes) {
      const Buffer& buffer = program.buffers[b];
      if (kind != LaneKind::kHostToDevice || !TakesRoom(buffer) || lives[b].first != i) continue;
      lives[b].first = std::max(i, begins[instruction.wanted]);
      wanted_[instruction.wanted] += buffer.bytes;
    }
    for (const int b : instruction.reads) {
      const Buffer& buffer = program.buffers[b];
      if (kind != LaneKind::kDeviceToHost || !TakesRoom(buffer) || leaves[b]) continue;
      leaves[b] = true;
      const int last = program.instructions[lives[b].last].slot;
      sent_[instruction.slot].push_back({last, buffer.bytes});
      lives[b].last = std::max(lives[b].last, begins[last + 1] - 1);
    }
  }
  CountBytes(program, lives, begins);
}

void SlotMemory::CountBytes(const Program& program, const std::vector<Lifetime>& lives,
                            const std::vector<int>& begins) {
  std::vector<int64_t> change(begins.back() + 1, 0);
  int64_t alive = 0;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    const Buffer& buffer = program.buffers[b];
    if (buffer.space == kDeviceSpace && buffer.persistent) alive += buffer.bytes;
    if (!TakesRoom(buffer) || lives[b].first < 0) continue;
    change[lives[b].first] += buffer.bytes;
    change[lives[b].last + 1] -= buffer.bytes;
  }
  int i = 0;
  for (size_t k = 0; k < bytes_.size(); ++k) {
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
