#include "program/program_writer.h"

#include <algorithm>
#include <utility>

#include "core/units.h"
#include "program/placement.h"
#include "program/waits.h"

namespace lazytrain {
namespace {

using Visit = std::function<void(const Operand&, bool written)>;

void VisitAll(const std::vector<Operand>& operands, bool written, const Visit& visit) {
  for (const Operand& operand : operands) {
    if (operand.present()) visit(operand, written);
  }
}

struct OperandVisitor {
  const Visit& visit;

  void operator()(const CopyAction& copy) const {
    visit(copy.from, false);
    visit(copy.to, true);
  }
  void operator()(const OpAction& op) const {
    VisitAll(op.inputs, false, visit);
    VisitAll(op.weights, false, visit);
    VisitAll(op.d_outputs, false, visit);
    // Backward reads what forward wrote, unless it is the one that computes it.
    const bool writes_outputs =
        op.direction == Direction::kForward || op.op->backward_computes_outputs();
    VisitAll(op.outputs, writes_outputs, visit);
    VisitAll(op.d_inputs, true, visit);
    VisitAll(op.d_weights, true, visit);
    VisitAll({op.workspace}, true, visit);
    VisitAll({op.cu_seqlens}, false, visit);
  }
  void operator()(const RoundGradientAction& round) const {
    visit(round.accumulator, round.stored.buffer == round.accumulator.buffer);
    visit(round.stored, true);
    VisitAll({round.partial_sums}, true, visit);
  }
  void operator()(const WidenGradientAction& widen) const {
    visit(widen.stored, false);
    visit(widen.accumulator, true);
  }
  void operator()(const UpdateAction& update) const {
    visit(update.gradient, false);
    VisitAll({update.weights, update.master_low, update.moment1, update.moment2}, true, visit);
  }
  void operator()(const EndStepAction& end) const { visit(end.partial_sums, false); }
};

void AddUnique(std::vector<int>& items, int item) {
  if (std::find(items.begin(), items.end(), item) == items.end()) items.push_back(item);
}

}  // namespace

void VisitOperands(const Action& action, const Visit& visit) {
  std::visit(OperandVisitor{visit}, action);
}

ProgramWriter::ProgramWriter(std::string name, const ModelGraph& model,
                             const PersistentLayout& persistent, const Capacity& capacity)
    : persistent_(persistent) {
  program_.name = std::move(name);
  program_.lanes = {{"compute", LaneKind::kCompute},
                    {"h2d", LaneKind::kHostToDevice},
                    {"d2h", LaneKind::kDeviceToHost},
                    {"host", LaneKind::kHost}};
  program_.buffers = persistent.buffers;
  program_.capacity = capacity;
  program_.inputs.resize(static_cast<size_t>(capacity.micro_batches));
  program_.results.resize(static_cast<size_t>(capacity.micro_batches));
  held_until_.resize(program_.buffers.size(), -1);
  for (const UnitSpec& unit : model.units) {
    program_.unit_parameters.push_back(TrainableParameters(unit));
    program_.unit_names.push_back(unit.name);
  }
}

int ProgramWriter::NewBuffer(std::string name, int space, int64_t bytes) {
  program_.buffers.push_back(
      {std::move(name), space, RoundUp(std::max<int64_t>(bytes, 1), kAlignment), 0, false});
  held_until_.push_back(-1);
  return static_cast<int>(program_.buffers.size()) - 1;
}

int ProgramWriter::Add(int lane, std::string name, Action action, int micro_batch, int pass) {
  Instruction instruction;
  instruction.name = std::move(name);
  instruction.lane = lane;
  instruction.micro_batch = micro_batch;
  instruction.pass = pass;
  instruction.slot = slot_;
  instruction.wanted = wanted_;
  instruction.action = std::move(action);
  VisitOperands(instruction.action, [&](const Operand& operand, bool written) {
    AddUnique(written ? instruction.writes : instruction.reads, operand.buffer);
  });
  program_.instructions.push_back(std::move(instruction));
  return static_cast<int>(program_.instructions.size()) - 1;
}

int ProgramWriter::Copy(int lane, std::string name, const Operand& from, const Operand& to,
                        int micro_batch, int pass) {
  return Add(lane, std::move(name), CopyAction{from, to}, micro_batch, pass);
}

Operand ProgramWriter::Whole(int buffer) const {
  Operand operand;
  operand.buffer = buffer;
  operand.dtype = DType::kU8;
  operand.fixed_rows = 1;
  operand.cols = program_.buffers[static_cast<size_t>(buffer)].bytes;
  return operand;
}

void ProgramWriter::BeginSlot(int slot, int hold_until) {
  slot_ = slot;
  wanted_ = slot;
  hold_until_ = hold_until;
}

void ProgramWriter::EndSlot() {
  const int now = static_cast<int>(program_.instructions.size()) - 1;
  const auto free = held_.upper_bound(slot_);
  for (auto it = held_.begin(); it != free; ++it) {
    for (const int buffer : it->second) held_until_[static_cast<size_t>(buffer)] = now;
  }
  held_.erase(held_.begin(), free);
  hold_until_ = kNoSlot;
}

Program ProgramWriter::Finish(int64_t device_bytes) {
  const int end = static_cast<int>(program_.instructions.size()) - 1;
  for (const auto& [slot, buffers] : held_) {
    for (const int buffer : buffers) held_until_[static_cast<size_t>(buffer)] = end;
  }
  PlaceBuffers(program_, persistent_, held_until_, device_bytes);
  AddWaits(program_);
  return std::move(program_);
}

}  // namespace lazytrain
