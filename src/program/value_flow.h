// The part of a program that computes: which buffer holds which value of which micro-batch, forward
// ops, recomputation on demand, backward ops, transfers of values that wait on the host.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ops/kernel.h"
#include "plan/sweeps.h"
#include "program/program_writer.h"
#include "program/row_runs.h"
#include "program/unit_traffic.h"

namespace lazytrain {

class ValueFlow {
 public:
  // `kernels`: whose workspaces buffers are made for; null: those of Op::WorkspaceBytes. `kept`:
  // values that wait for backward (none in programs without one).
  ValueFlow(ProgramWriter& writer, const SegmentChain& chain, UnitTraffic& traffic,
            const KernelTable* kernels, std::set<ValueId> kept = {});

  // Copies every tensor of the batch that the chain reads to the device.
  void FetchBatch();

  // The forward ops of a segment that `runs` names.
  void Forward(int segment, const std::vector<bool>& runs, int micro_batch, int pass);
  // What of the segment waits on the host: copied there, once its forward ops ran.
  void Offload(int segment, const std::vector<SegmentPlan>& plans, int micro_batch, int pass);
  // After the forward sweep of a pass: only values that wait on the device stay known.
  void EndForward(const std::vector<SegmentPlan>& plans);
  // Copies of what a block reads from the host, ahead of their use at `slot`.
  void Reload(const BackwardBlock& block, int micro_batch, int pass, int slot);
  void Backward(const BackwardBlock& block, const GradientFlow& flow, int micro_batch, int pass);
  // Values of the block, and copies of what waits on the host, have had their last use, but for
  // those that a slot after this one has asked for.
  void EndBackward(const BackwardBlock& block, int micro_batch, int slot);
  // Copies the chain's results to the host.
  void StoreResults(int micro_batch, int pass);

 private:
  static constexpr int kWhole = -1;  // in place of a chunk

  // A micro-batch, or a chunk of its rows.
  struct Span {
    int micro_batch = 0;
    int chunk = kWhole;
    int pass = 0;
  };
  struct Key {
    ValueId id;
    int micro_batch;
    int chunk;  // kWhole: the buffer holds all rows
    auto operator<=>(const Key&) const = default;
  };
  // Where the gradient of a value lies; `written` are the chunks that have one.
  struct Gradient {
    int buffer = -1;
    bool whole = true;  // the buffer holds all rows
    std::set<int> written;
  };

  const ValueSpec& Spec(const ValueId& id) const {
    return chain_[id.segment].graph->values[id.value];
  }
  std::string Name(const ValueId& id, int micro_batch) const;
  std::string NodeName(const char* verb, int segment, const OpNode& node, const Span& span) const;

  // Whether buffers of the value hold all rows, or one chunk each. Gradients are never kept.
  bool IsWhole(const ValueId& id) const;
  bool GradientIsWhole(const ValueId& id) const;
  Key KeyOf(const ValueId& id, const Span& span) const;
  const RowCounts& RowsIn(bool whole) const { return whole ? capacity_ : chunk_capacity_; }
  int NewValueBuffer(const ValueId& id, const Span& span, bool whole,
                     const std::string& suffix = "");
  // The span's rows of a buffer that holds all rows or the span's alone.
  Operand ValueOperand(int buffer, const ValueSpec& spec, const Span& span, bool whole) const;
  Operand Input(int segment, int value, const Span& span) const;
  Operand StateOperand(int segment, int value) const;
  Operand CuSeqlens(int micro_batch) const;
  Operand Workspace(const OpNode& node, Direction direction, const Span& span,
                    const std::string& name);
  void AddOp(std::string name, OpAction action, const Span& span);

  // Calls `body` for every chunk of a run, or once for all rows; what exists in chunks is forgotten
  // after each.
  template <typename Body>
  void ForChunks(const RowRun& run, const Span& span, const Body& body);

  void RunForward(int segment, int node, const Span& span, const char* verb);
  Operand Output(int segment, const OpNode& node, int output, const Span& span);
  // Makes the span's rows of a value be on the device: does nothing, reloads, or recomputes.
  void Ensure(int segment, int value, const Span& span);
  void EnsureInputs(const ValueId& id, int writer, const Span& span);
  void RecomputeWhole(const ValueId& id, const Span& span);
  void ReloadValue(const ValueId& id, int micro_batch, int pass);
  void RunBackward(int segment, int node, const GradientFlow& flow, const Span& span);
  Operand OutputGradient(const ValueId& id, const Span& span) const;
  void AddInputGradients(int segment, const OpNode& node, const GradientFlow& flow,
                         const Span& span, OpAction& action);
  Operand InputGradient(const ValueId& id, const Span& span, const ValueId* residual_of,
                        bool& accumulate);

  ProgramWriter& writer_;
  const SegmentChain& chain_;
  UnitTraffic& traffic_;
  const KernelTable* kernels_;
  std::set<ValueId> kept_;
  std::vector<RowRuns> runs_;
  int chunks_;
  RowCounts capacity_;            // of a micro-batch
  RowCounts chunk_capacity_;      // of a chunk
  std::map<Key, int> on_device_;  // buffers
  std::map<Key, int> on_host_;
  std::map<Key, int> wanted_;  // the last slot that asked for a reload
  std::map<Key, Gradient> gradients_;
  std::set<Key> building_;                         // whole values whose chunks are being computed
  std::vector<Key>* added_ = nullptr;              // in this chunk
  std::vector<std::map<std::string, int>> batch_;  // device buffers by micro-batch and name
};

}  // namespace lazytrain
