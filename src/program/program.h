// A step program: every instruction of a training step (or of an evaluation, an update, ...) on its
// lane, with what it reads and writes, what it waits for, and where in memory everything lies. The
// simulator and the executor read the same program.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "device/device.h"
#include "model/graph.h"
#include "ops/op.h"
#include "ops/unit_kernels.h"
#include "plan/capacity.h"

namespace lazytrain {

// Memory a buffer can lie in. Spaces are data: another tier is another row.
enum Space : int {
  kDeviceSpace = 0,  // the device arena, one block
  kHostSpace = 1,    // host memory the program owns: activations, batches, results
  kStoreSpace = 2,   // host memory that outlives programs: weights, gradients, optimizer states
  kSpaces = 3,
};

struct Buffer {
  std::string name;  // "layers.3.qkv[2]"
  int space = kDeviceSpace;
  int64_t bytes = 0;   // a multiple of kAlignment
  int64_t offset = 0;  // in its space; set by the compiler
  // Persistent buffers keep their contents and place between runs and programs.
  bool persistent = false;
};

// Rows of an operand: as many as the micro-batch has, or a fixed number.
enum class Rows { kTokens, kSelected, kFixed };

// A matrix in (or as) a buffer.
struct Operand {
  int buffer = -1;     // -1: absent
  int64_t offset = 0;  // bytes from the buffer's first
  DType dtype = DType::kF32;
  Rows rows = Rows::kFixed;
  int64_t fixed_rows = 0;
  int64_t cols = 0;

  bool present() const { return buffer >= 0; }
};

// From one buffer to the other; `from`'s rows and columns say how much.
struct CopyAction {
  Operand from;
  Operand to;
};

// One op of the graph, forward or backward, for one micro-batch.
struct OpAction {
  const Op* op = nullptr;
  Direction direction = Direction::kForward;
  std::vector<Operand> inputs, outputs, weights;
  std::vector<Operand> d_outputs, d_inputs, d_weights;
  std::vector<bool> accumulate_inputs, accumulate_weights;
  Operand workspace;
  Operand cu_seqlens;
};

// RoundGradientArgs over buffers. `partial_sums` may be absent.
struct RoundGradientAction {
  int unit = 0;
  Operand accumulator;
  Operand stored;  // the accumulator itself: rounded in place
  Operand partial_sums;
};

// WidenGradientArgs over buffers.
struct WidenGradientAction {
  int unit = 0;
  Operand accumulator;
  Operand stored;
  bool add = false;
};

// AdamWArgs over buffers; runs only when an update is pending (Executor).
struct UpdateAction {
  int unit = 0;
  Operand weights, master_low, moment1, moment2, gradient;
};

// The end of backward: reads the partial sums (float64) on the host and decides clipping.
struct EndStepAction {
  Operand partial_sums;
};

using Action = std::variant<CopyAction, OpAction, RoundGradientAction, WidenGradientAction,
                            UpdateAction, EndStepAction>;

inline constexpr int64_t kAllRows = -1;

struct Instruction {
  std::string name;  // "forward qkv_proj layers.3[2]": for traces and messages
  int lane = 0;
  int micro_batch = -1;  // -1: of no micro-batch in particular
  int pass = 0;
  int slot = 0;    // in which it is issued (program/stages.h)
  int wanted = 0;  // of transfers to the device: the slot that first needs it
  // The rows of the micro-batch that it works on: `rows` from `first_row`, as far as there are so
  // many. Operands start at their first row of the chunk.
  int64_t first_row = 0;
  int64_t rows = kAllRows;
  Action action;
  std::vector<int> waits;  // earlier instructions of other lanes, by position

  // Every buffer the action touches.
  std::vector<int> reads;
  std::vector<int> writes;
};

struct LaneSpec {
  std::string name;
  LaneKind kind = LaneKind::kCompute;
};

// The lanes of today's programs, by position. Programs name lanes by number only.
enum LaneNumber : int { kComputeLane = 0, kH2dLane = 1, kD2hLane = 2, kHostLane = 3 };

struct Program {
  std::string name;  // "train", "evaluate", ...
  std::vector<LaneSpec> lanes;
  std::vector<Buffer> buffers;  // those of the PersistentLayout first, under the same numbers
  std::vector<Instruction> instructions;
  Capacity capacity;

  // Host buffers by micro-batch and name: what to fill before a run, what to read after it.
  std::vector<std::map<std::string, int>> inputs;   // "input_ids", "positions", "cu_seqlens", ...
  std::vector<std::map<std::string, int>> results;  // "token_loss", "logits"

  std::vector<std::vector<UnitParameter>> unit_parameters;  // trainable ones, for each unit
  std::vector<std::string> unit_names;

  // Bytes of each space that the program needs, persistent buffers included.
  int64_t peak_bytes[kSpaces] = {};
  // The most bytes of device buffers alive at one point: no packing can need less.
  int64_t device_lower_bound = 0;
};

}  // namespace lazytrain
