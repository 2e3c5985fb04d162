// Calls of a model's kernels on made-up operands, in the order in which a step makes them: what op
// times are measured with.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "device/device.h"
#include "model/graph.h"
#include "ops/kernel.h"

namespace lazytrain {

struct OpCall {
  const Op* op = nullptr;
  Direction direction = Direction::kForward;
  KernelFunction kernel = nullptr;
  OpArgs args;
};

// One call of every op of the loss chain, by direction, that the device has kernels for. Operands
// are random numbers as large as real ones (weights and values normally distributed with standard
// deviations 0.02 and 1, ids inside the vocabulary): a GPU under its power limit multiplies
// constants faster than data. Calls share memory: what one writes, others may write over, but
// nobody writes over what is only read.
class OpCalls {
 public:
  // `rows`: those of every call. A round has a segment that stands in the chain n times
  // min(n, most_repeats) times. The model and the device must outlive it. Throws Error if the
  // memory cannot be had.
  OpCalls(Device& device, const ModelGraph& model, const RowCounts& rows, int64_t most_repeats);
  OpCalls(const OpCalls&) = delete;
  OpCalls& operator=(const OpCalls&) = delete;

  // Device memory that it takes.
  static int64_t Bytes(const Device& device, const ModelGraph& model, const RowCounts& rows);

  const std::vector<OpCall>& calls() const { return calls_; }
  // A forward and a backward sweep: positions in calls().
  const std::vector<int>& round() const { return round_; }

 private:
  std::unique_ptr<MemoryBlock> block_;
  std::unique_ptr<MemoryBlock> cu_seqlens_;  // on the host
  std::vector<OpCall> calls_;
  std::vector<int> round_;
};

}  // namespace lazytrain
