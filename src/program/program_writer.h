// Writes a program instruction by instruction, in the order in which they would run on one lane.
// What an instruction reads and writes follows from its action; waits and offsets are added later.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "program/persistent.h"
#include "program/program.h"

namespace lazytrain {

class ProgramWriter {
 public:
  ProgramWriter(std::string name, const ModelGraph& model, const PersistentLayout& persistent,
                const Capacity& capacity);

  // A buffer that lives from its first to its last use. `bytes` is rounded up to kAlignment.
  int NewBuffer(std::string name, int space, int64_t bytes);

  // Appends and returns the instruction's position.
  int Add(int lane, std::string name, Action action, int micro_batch = -1, int pass = 0);
  int Copy(int lane, std::string name, const Operand& from, const Operand& to, int micro_batch = -1,
           int pass = 0);

  // The whole of a buffer, as bytes; what copies of units move.
  Operand Whole(int buffer) const;

  // Instructions from here on belong to the slot. `hold_until`: the slot at whose end the memory is
  // free of what is held (Hold) in this one.
  void BeginSlot(int slot, int hold_until);
  void EndSlot();
  // Transfers from here on are wanted at this slot, until the next call or slot.
  void SetWanted(int slot) { wanted_ = slot; }
  // Transfers out of a buffer take a while: what is held keeps its memory for itself, so that
  // compute need not wait for them. Outside slots nothing is held.
  void Hold(int buffer) {
    if (hold_until_ != kNoSlot) held_[hold_until_].push_back(buffer);
  }

  const PersistentLayout& persistent() const { return persistent_; }
  Program& program() { return program_; }

  // Places buffers (`device_bytes`: as in PlaceBuffers), adds waits, and hands the program over.
  Program Finish(int64_t device_bytes = 0);

 private:
  static constexpr int kNoSlot = -1;

  const PersistentLayout& persistent_;
  Program program_;
  int slot_ = 0;
  int wanted_ = 0;
  int hold_until_ = kNoSlot;
  std::map<int, std::vector<int>> held_;  // buffers by the slot at whose end they are free
  std::vector<int> held_until_;           // for each buffer, an instruction position
};

// Calls `visit(operand, written)` for every operand of an action that is there.
void VisitOperands(const Action& action,
                   const std::function<void(const Operand&, bool written)>& visit);

}  // namespace lazytrain
