// How an operation is computed: the calling convention of kernels and the table that finds them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "device/device.h"
#include "ops/op.h"

namespace lazytrain {

// The documents of a micro-batch. `cu_seqlens` has documents + 1 entries, from 0 to tokens
// (cumulative lengths, as in flash-attention); attention never crosses its borders.
struct BatchLayout {
  RowCounts rows;         // those that operands have: of a chunk, if the call is for one
  int64_t first_row = 0;  // of the chunk, in the micro-batch
  const int32_t* cu_seqlens_host = nullptr;
  const int32_t* cu_seqlens_device = nullptr;
};

// Operands of one call. A view without data is an operand that is not there: an absent optional
// input, or a gradient nobody wants. All are row-major; rows are those that the micro-batch has.
struct OpArgs {
  std::vector<TensorView> inputs;
  std::vector<TensorView> outputs;
  std::vector<TensorView> weights;

  // Backward only. d_outputs are read, except where one shares its buffer with a d_input.
  std::vector<TensorView> d_outputs;
  std::vector<TensorView> d_inputs;
  // For each input: add to what d_input holds (true) or overwrite it (false).
  std::vector<bool> accumulate_inputs;
  // Gradients of the weights, float32 whatever the weights' dtype.
  std::vector<TensorView> d_weights;
  std::vector<bool> accumulate_weights;

  void* workspace = nullptr;  // KernelTable::WorkspaceBytes(...) bytes, contents undefined
  BatchLayout batch;
};

// Kernels never allocate device memory and never wait for the device. The same arguments give the
// same bits, whatever else runs and however many threads there are.
using KernelFunction = void (*)(const Op& op, const OpArgs& args, LaneContext& context);

// Scratch memory of one call; as Op::WorkspaceBytes a constant of the op and the capacity.
using WorkspaceFunction = int64_t (*)(const Op& op, Direction direction, const RowCounts& capacity);

struct Kernel {
  KernelFunction forward = nullptr;
  KernelFunction backward = nullptr;
  WorkspaceFunction workspace = nullptr;  // null: what Op::WorkspaceBytes says
};

class KernelTable {
 public:
  // `libraries`: versions and code paths of what computes, for the numerics key.
  KernelTable(std::string backend, std::string libraries,
              std::map<std::string, Kernel, std::less<>> kernels)
      : backend_(std::move(backend)),
        libraries_(std::move(libraries)),
        kernels_(std::move(kernels)) {}

  const std::string& libraries() const { return libraries_; }

  bool Has(const Op& op, Direction direction) const;
  // Throws Error naming the op when this backend cannot run it (an op for planning only).
  KernelFunction Find(const Op& op, Direction direction) const;

  // What a call of the op's kernel wants as workspace; for an op without kernels, what it says.
  int64_t WorkspaceBytes(const Op& op, Direction direction, const RowCounts& capacity) const;

 private:
  std::string backend_;
  std::string libraries_;
  std::map<std::string, Kernel, std::less<>> kernels_;
};

// The same, of the kernels of a backend or, where it is not known yet (null), what the op says.
int64_t WorkspaceBytes(const KernelTable* kernels, const Op& op, Direction direction,
                       const RowCounts& capacity);

// The kernels for a device's backend.
const KernelTable& KernelsFor(const Device& device);

}  // namespace lazytrain
