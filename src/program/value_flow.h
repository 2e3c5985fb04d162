// The part of a program that computes: which buffer holds which value of which micro-batch, forward
// ops, recomputation on demand, backward ops, transfers of values that wait on the host.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "ops/kernel.h"
#include "plan/sweeps.h"
#include "program/program_writer.h"
#include "program/unit_traffic.h"

namespace lazytrain {

class ValueFlow {
 public:
  // `kernels`: whose workspaces buffers are made for; null: those of Op::WorkspaceBytes.
  ValueFlow(ProgramWriter& writer, const SegmentChain& chain, UnitTraffic& traffic,
            const KernelTable* kernels);

  // Copies every tensor of the batch that the chain reads to the device.
  void FetchBatch();

  // The forward ops of a segment that `runs` names, then copies to the host of what waits there.
  void Forward(int segment, const std::vector<bool>& runs, int micro_batch, int pass);
  // What of the segment waits on the host: copied there, once its forward ops ran.
  void Offload(int segment, const Sweeps& sweeps, const std::vector<SegmentPlan>& plans,
               int micro_batch, int pass);
  // After the forward sweep of a pass: only values that wait on the device stay known.
  void EndForward(const Sweeps& sweeps, const std::vector<SegmentPlan>& plans);
  // Copies of what a block reads from the host, ahead of their use.
  void Reload(const BackwardBlock& block, int micro_batch, int pass);
  void Backward(const BackwardBlock& block, const GradientFlow& flow, int micro_batch, int pass);
  // Values of the block, and copies of what waits on the host, have had their last use.
  void EndBackward(const BackwardBlock& block, int micro_batch);
  // Copies the chain's results to the host.
  void StoreResults(int micro_batch, int pass);

 private:
  struct Key {
    ValueId id;
    int micro_batch;
    auto operator<=>(const Key&) const = default;
  };

  const ValueSpec& Spec(const ValueId& id) const {
    return chain_[id.segment].graph->values[id.value];
  }
  std::string Name(const ValueId& id, int micro_batch) const;
  int NewValueBuffer(const ValueId& id, int micro_batch, const std::string& suffix = "");
  Operand ValueOperand(int buffer, const ValueSpec& spec) const;
  Operand Input(int segment, int value, int micro_batch) const;
  Operand BatchOperand(const ValueSpec& spec, int micro_batch) const;
  Operand CuSeqlens(int micro_batch) const;
  Operand Workspace(const OpNode& node, Direction direction, const std::string& name);

  void RunForward(int segment, int node, int micro_batch, int pass, const char* verb);
  // Makes a value be on the device: does nothing, reloads, or recomputes.
  void Ensure(int segment, int value, int micro_batch, int pass);
  void ReloadValue(const ValueId& id, int micro_batch, int pass);
  void RunBackward(int segment, int node, const GradientFlow& flow, int micro_batch, int pass);
  void AddInputGradients(int segment, const OpNode& node, const GradientFlow& flow, int micro_batch,
                         OpAction& action);

  ProgramWriter& writer_;
  const SegmentChain& chain_;
  UnitTraffic& traffic_;
  const KernelTable* kernels_;
  RowCounts capacity_;
  std::map<Key, int> on_device_;  // buffers
  std::map<Key, int> on_host_;
  std::map<Key, int> gradients_;
  std::vector<std::map<std::string, int>> batch_;  // device buffers by micro-batch and name
};

}  // namespace lazytrain
