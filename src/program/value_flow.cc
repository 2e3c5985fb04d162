#include "program/value_flow.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "core/error.h"

namespace lazytrain {
namespace {

Rows RowsOf(Extent extent) { return extent == Extent::kTokens ? Rows::kTokens : Rows::kSelected; }

bool Contains(const std::vector<int>& items, int item) {
  return std::find(items.begin(), items.end(), item) != items.end();
}

}  // namespace

ValueFlow::ValueFlow(ProgramWriter& writer, const SegmentChain& chain, UnitTraffic& traffic,
                     const KernelTable* kernels)
    : writer_(writer),
      chain_(chain),
      traffic_(traffic),
      kernels_(kernels),
      capacity_(writer.program().capacity.MicroBatchRows()),
      batch_(writer.program().inputs.size()) {}

std::string ValueFlow::Name(const ValueId& id, int micro_batch) const {
  return fmt::format("{}.{}[{}]", chain_[id.segment].name, Spec(id).name, micro_batch);
}

int ValueFlow::NewValueBuffer(const ValueId& id, int micro_batch, const std::string& suffix) {
  return writer_.NewBuffer(Name(id, micro_batch) + suffix, kDeviceSpace, Spec(id).Bytes(capacity_));
}

Operand ValueFlow::ValueOperand(int buffer, const ValueSpec& spec) const {
  return {buffer, 0, spec.dtype, RowsOf(spec.extent), 0, spec.cols};
}

Operand ValueFlow::BatchOperand(const ValueSpec& spec, int micro_batch) const {
  return ValueOperand(batch_[micro_batch].at(spec.name), spec);
}

Operand ValueFlow::CuSeqlens(int micro_batch) const {
  Operand operand = writer_.Whole(batch_[micro_batch].at("cu_seqlens"));
  operand.dtype = DType::kI32;
  operand.fixed_rows = capacity_.documents + 1;
  operand.cols = 1;
  return operand;
}

void ValueFlow::FetchBatch() {
  std::map<std::string, ValueSpec> tensors;
  for (const Segment& segment : chain_) {
    for (const ValueSpec& value : segment.graph->values) {
      if (value.origin == ValueOrigin::kBatch) tensors[value.name] = value;
    }
  }
  const ValueSpec cu_seqlens{"cu_seqlens", DType::kI32, Extent::kTokens, 1, ValueOrigin::kBatch};
  for (size_t m = 0; m < batch_.size(); ++m) {
    const auto fetch = [&](const ValueSpec& spec, int64_t bytes) {
      const std::string name = fmt::format("{}[{}]", spec.name, m);
      const int host = writer_.NewBuffer(name + ".host", kHostSpace, bytes);
      const int device = writer_.NewBuffer(name, kDeviceSpace, bytes);
      writer_.program().inputs[m][spec.name] = host;
      batch_[m][spec.name] = device;
      return std::pair{host, device};
    };
    const auto [host, device] =
        fetch(cu_seqlens, (capacity_.documents + 1) * SizeOf(cu_seqlens.dtype));
    writer_.Copy(kH2dLane, fmt::format("fetch cu_seqlens[{}]", m), writer_.Whole(host),
                 writer_.Whole(device), static_cast<int>(m));
    for (const auto& [name, spec] : tensors) {
      const auto [from, to] = fetch(spec, spec.Bytes(capacity_));
      writer_.Copy(kH2dLane, fmt::format("fetch {}[{}]", name, m), ValueOperand(from, spec),
                   ValueOperand(to, spec), static_cast<int>(m));
    }
  }
}

Operand ValueFlow::Input(int segment, int value, int micro_batch) const {
  const ValueSpec& spec = chain_[segment].graph->values[value];
  if (spec.origin == ValueOrigin::kBatch) return BatchOperand(spec, micro_batch);
  const ValueId id = Canonical(chain_, segment, value);
  const auto found = on_device_.find({id, micro_batch});
  if (found == on_device_.end()) {
    throw InternalError("{} is read but not on the device", Name(id, micro_batch));
  }
  return ValueOperand(found->second, spec);
}

Operand ValueFlow::Workspace(const OpNode& node, Direction direction, const std::string& name) {
  const int64_t bytes = kernels_ == nullptr
                            ? node.op->WorkspaceBytes(direction, capacity_)
                            : kernels_->WorkspaceBytes(*node.op, direction, capacity_);
  if (bytes == 0) return {};
  return writer_.Whole(writer_.NewBuffer(name + " workspace", kDeviceSpace, bytes));
}

void ValueFlow::RunForward(int segment, int n, int micro_batch, int pass, const char* verb) {
  const OpNode& node = chain_[segment].graph->nodes[n];
  const std::string name =
      fmt::format("{} {} {}[{}]", verb, node.name, chain_[segment].name, micro_batch);
  OpAction action;
  action.op = node.op.get();
  action.direction = Direction::kForward;
  for (const int input : node.inputs) action.inputs.push_back(Input(segment, input, micro_batch));
  for (const int output : node.outputs) {
    const ValueId id{segment, output};
    if (node.op->in_place() && output == node.inputs[0]) {
      action.outputs.push_back(Input(segment, output, micro_batch));
      continue;
    }
    const int buffer = NewValueBuffer(id, micro_batch);
    // A kept value that is computed once more, beside one that is missing, goes to scratch memory.
    on_device_.try_emplace({id, micro_batch}, buffer);
    action.outputs.push_back(ValueOperand(buffer, Spec(id)));
  }
  for (const WeightRef& ref : node.weights) action.weights.push_back(traffic_.Weight(segment, ref));
  action.workspace = Workspace(node, Direction::kForward, name);
  action.cu_seqlens = CuSeqlens(micro_batch);
  writer_.Add(kComputeLane, name, std::move(action), micro_batch, pass);
}

void ValueFlow::Forward(int segment, const std::vector<bool>& runs, int micro_batch, int pass) {
  for (size_t n = 0; n < runs.size(); ++n) {
    if (runs[n]) RunForward(segment, static_cast<int>(n), micro_batch, pass, "forward");
  }
}

void ValueFlow::Offload(int segment, const Sweeps& sweeps, const std::vector<SegmentPlan>& plans,
                        int micro_batch, int pass) {
  for (const ValueId& id : sweeps.kept) {
    if (id.segment != segment || TierOf(chain_, plans, id) != Tier::kHost) continue;
    const std::string name = Name(id, micro_batch);
    const int device = on_device_.at({id, micro_batch});
    const int host = writer_.NewBuffer(name + ".host", kHostSpace, Spec(id).Bytes(capacity_));
    on_host_[{id, micro_batch}] = host;
    writer_.Copy(kD2hLane, "offload " + name, ValueOperand(device, Spec(id)),
                 ValueOperand(host, Spec(id)), micro_batch, pass);
    writer_.Hold(device);
  }
}

void ValueFlow::EndForward(const Sweeps& sweeps, const std::vector<SegmentPlan>& plans) {
  std::erase_if(on_device_, [&](const auto& entry) {
    const ValueId& id = entry.first.id;
    return !sweeps.kept.contains(id) || TierOf(chain_, plans, id) != Tier::kDevice;
  });
}

void ValueFlow::ReloadValue(const ValueId& id, int micro_batch, int pass) {
  const std::string name = Name(id, micro_batch);
  const int device = NewValueBuffer(id, micro_batch);
  on_device_[{id, micro_batch}] = device;
  writer_.Copy(kH2dLane, "reload " + name, ValueOperand(on_host_.at({id, micro_batch}), Spec(id)),
               ValueOperand(device, Spec(id)), micro_batch, pass);
}

void ValueFlow::Reload(const BackwardBlock& block, int micro_batch, int pass) {
  for (const ValueId& id : block.kept_reads) {
    const Key key{id, micro_batch};
    if (!on_device_.contains(key) && on_host_.contains(key)) ReloadValue(id, micro_batch, pass);
  }
}

void ValueFlow::Ensure(int segment, int value, int micro_batch, int pass) {
  if (chain_[segment].graph->values[value].origin == ValueOrigin::kBatch) return;
  const ValueId id = Canonical(chain_, segment, value);
  if (on_device_.contains({id, micro_batch})) return;
  if (on_host_.contains({id, micro_batch})) return ReloadValue(id, micro_batch, pass);
  const SegmentGraph& graph = *chain_[id.segment].graph;
  for (const int writer : WritersOf(graph, id.value)) {
    for (const int input : graph.nodes[writer].inputs) {
      if (input != id.value) Ensure(id.segment, input, micro_batch, pass);
    }
    RunForward(id.segment, writer, micro_batch, pass, "recompute");
  }
}

void ValueFlow::Backward(const BackwardBlock& block, const GradientFlow& flow, int micro_batch,
                         int pass) {
  for (int s = block.last; s >= block.first; --s) {
    for (int n = static_cast<int>(chain_[s].graph->nodes.size()) - 1; n >= 0; --n) {
      if (flow.node_runs_backward[s][n]) RunBackward(s, n, flow, micro_batch, pass);
    }
  }
}

void ValueFlow::EndBackward(const BackwardBlock& block, int micro_batch) {
  std::erase_if(on_device_, [&](const auto& entry) {
    return entry.first.micro_batch == micro_batch &&
           (entry.first.id.segment >= block.first || on_host_.contains(entry.first));
  });
}

void ValueFlow::RunBackward(int segment, int n, const GradientFlow& flow, int micro_batch,
                            int pass) {
  const OpNode& node = chain_[segment].graph->nodes[n];
  const BackwardNeeds needs = node.op->backward_needs();
  for (const int i : needs.inputs) Ensure(segment, node.inputs[i], micro_batch, pass);
  for (const int i : needs.outputs) Ensure(segment, node.outputs[i], micro_batch, pass);

  const std::string name =
      fmt::format("backward {} {}[{}]", node.name, chain_[segment].name, micro_batch);
  OpAction action;
  action.op = node.op.get();
  action.direction = Direction::kBackward;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool needed = Contains(needs.inputs, static_cast<int>(i));
    action.inputs.push_back(needed ? Input(segment, node.inputs[i], micro_batch) : Operand{});
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId id{segment, node.outputs[i]};
    if (node.op->backward_computes_outputs()) {
      const int buffer = NewValueBuffer(id, micro_batch);
      on_device_[{id, micro_batch}] = buffer;
      action.outputs.push_back(ValueOperand(buffer, Spec(id)));
    } else {
      const bool needed = Contains(needs.outputs, static_cast<int>(i));
      action.outputs.push_back(needed ? Input(segment, node.outputs[i], micro_batch) : Operand{});
    }
    const auto gradient = gradients_.find({id, micro_batch});
    action.d_outputs.push_back(
        gradient == gradients_.end() ? Operand{} : ValueOperand(gradient->second, Spec(id)));
  }
  AddInputGradients(segment, node, flow, micro_batch, action);
  for (const WeightRef& ref : node.weights) {
    action.weights.push_back(needs.weights ? traffic_.Weight(segment, ref) : Operand{});
    action.d_weights.push_back(traffic_.Gradient(segment, ref));
    action.accumulate_weights.push_back(traffic_.Accumulates(segment, ref));
  }
  action.workspace = Workspace(node, Direction::kBackward, name);
  action.cu_seqlens = CuSeqlens(micro_batch);
  writer_.Add(kComputeLane, name, std::move(action), micro_batch, pass);
}

void ValueFlow::AddInputGradients(int segment, const OpNode& node, const GradientFlow& flow,
                                  int micro_batch, OpAction& action) {
  const int residual = node.op->residual_input();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const auto position = static_cast<int>(i);
    action.accumulate_inputs.push_back(false);
    action.d_inputs.emplace_back();
    if (!node.op->differentiable(position)) continue;
    const ValueId id = Canonical(chain_, segment, node.inputs[i]);
    if (!flow.value_needs_gradient[id.segment][id.value]) continue;
    const Key key{id, micro_batch};
    const auto found = gradients_.find(key);
    if (node.op->in_place() && i == 0) {
      // The gradient turns in its place.
    } else if (found != gradients_.end()) {
      action.accumulate_inputs.back() = true;
    } else if (position == residual && action.d_outputs[0].present()) {
      // The gradient of the sum is that of the residual: the buffer changes its name.
      gradients_[key] = action.d_outputs[0].buffer;
    } else {
      gradients_[key] = NewValueBuffer(id, micro_batch, ".gradient");
    }
    action.d_inputs.back() = ValueOperand(gradients_.at(key), Spec(id));
  }
}

void ValueFlow::StoreResults(int micro_batch, int pass) {
  const int last = static_cast<int>(chain_.size()) - 1;
  for (const int value : ResultValues(*chain_[last].graph)) {
    const ValueId id{last, value};
    const auto found = on_device_.find({id, micro_batch});
    if (found == on_device_.end()) continue;
    const std::string name = Name(id, micro_batch);
    const int host = writer_.NewBuffer(name + ".host", kHostSpace, Spec(id).Bytes(capacity_));
    writer_.program().results[micro_batch][Spec(id).name] = host;
    writer_.Copy(kD2hLane, "store " + name, ValueOperand(found->second, Spec(id)),
                 ValueOperand(host, Spec(id)), micro_batch, pass);
  }
}

}  // namespace lazytrain
