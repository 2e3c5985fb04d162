#include "program/value_flow.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "core/contains.h"
#include "core/error.h"

namespace lazytrain {
namespace {

Rows RowsOf(Extent extent) { return extent == Extent::kTokens ? Rows::kTokens : Rows::kSelected; }

Operand WholeValue(int buffer, const ValueSpec& spec) {
  return {buffer, 0, spec.dtype, RowsOf(spec.extent), 0, spec.cols};
}

}  // namespace

ValueFlow::ValueFlow(ProgramWriter& writer, const SegmentChain& chain, UnitTraffic& traffic,
                     const KernelTable* kernels, std::set<ValueId> kept)
    : writer_(writer),
      chain_(chain),
      traffic_(traffic),
      kernels_(kernels),
      kept_(std::move(kept)),
      runs_(FindRowRuns(chain)),
      chunks_(static_cast<int>(writer.program().capacity.chunks())),
      capacity_(writer.program().capacity.MicroBatchRows()),
      chunk_capacity_(capacity_),
      batch_(writer.program().inputs.size()) {
  if (chunks_ > 1) chunk_capacity_.tokens = writer.program().capacity.chunk_tokens;
}

std::string ValueFlow::Name(const ValueId& id, int micro_batch) const {
  return fmt::format("{}.{}[{}]", chain_[id.segment].name, Spec(id).name, micro_batch);
}

std::string ValueFlow::NodeName(const char* verb, int segment, const OpNode& node,
                                const Span& span) const {
  std::string name =
      fmt::format("{} {} {}[{}]", verb, node.name, chain_[segment].name, span.micro_batch);
  if (span.chunk != kWhole) name += fmt::format(" chunk {}", span.chunk);
  return name;
}

bool ValueFlow::GradientIsWhole(const ValueId& id) const {
  return chunks_ == 1 || !runs_[id.segment].inner[id.value];
}

bool ValueFlow::IsWhole(const ValueId& id) const {
  return GradientIsWhole(id) || kept_.contains(id);
}

ValueFlow::Key ValueFlow::KeyOf(const ValueId& id, const Span& span) const {
  return {id, span.micro_batch, IsWhole(id) ? kWhole : span.chunk};
}

int ValueFlow::NewValueBuffer(const ValueId& id, const Span& span, bool whole,
                              const std::string& suffix) {
  return writer_.NewBuffer(Name(id, span.micro_batch) + suffix, kDeviceSpace,
                           Spec(id).Bytes(RowsIn(whole)));
}

Operand ValueFlow::ValueOperand(int buffer, const ValueSpec& spec, const Span& span,
                                bool whole) const {
  Operand operand = WholeValue(buffer, spec);
  if (whole && span.chunk > 0) {
    operand.offset = span.chunk * chunk_capacity_.tokens * spec.cols * SizeOf(spec.dtype);
  }
  return operand;
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
      writer_.Copy(kH2dLane, fmt::format("fetch {}[{}]", name, m), WholeValue(from, spec),
                   WholeValue(to, spec), static_cast<int>(m));
    }
  }
}

Operand ValueFlow::Input(int segment, int value, const Span& span) const {
  const ValueSpec& spec = chain_[segment].graph->values[value];
  if (spec.origin == ValueOrigin::kBatch) {
    return ValueOperand(batch_[span.micro_batch].at(spec.name), spec, span, true);
  }
  if (spec.origin == ValueOrigin::kState) return StateOperand(segment, value);
  const ValueId id = Canonical(chain_, segment, value);
  const auto found = on_device_.find(KeyOf(id, span));
  if (found == on_device_.end()) {
    throw InternalError("{} is read but not on the device", Name(id, span.micro_batch));
  }
  return ValueOperand(found->second, spec, span, IsWhole(id));
}

Operand ValueFlow::StateOperand(int segment, int value) const {
  const ValueSpec& spec = chain_[segment].graph->values[value];
  const int buffer = writer_.persistent().op_states.at({segment, value});
  return {buffer, 0, spec.dtype, Rows::kFixed, capacity_.context, spec.cols};
}

Operand ValueFlow::Workspace(const OpNode& node, Direction direction, const Span& span,
                             const std::string& name) {
  const int64_t bytes = WorkspaceBytes(kernels_, *node.op, direction, RowsIn(span.chunk == kWhole));
  if (bytes == 0) return {};
  return writer_.Whole(writer_.NewBuffer(name + " workspace", kDeviceSpace, bytes));
}

void ValueFlow::AddOp(std::string name, OpAction action, const Span& span) {
  const int at =
      writer_.Add(kComputeLane, std::move(name), std::move(action), span.micro_batch, span.pass);
  if (span.chunk == kWhole) return;
  Instruction& instruction = writer_.program().instructions[at];
  instruction.first_row = span.chunk * chunk_capacity_.tokens;
  instruction.rows = chunk_capacity_.tokens;
}

template <typename Body>
void ValueFlow::ForChunks(const RowRun& run, const Span& span, const Body& body) {
  if (chunks_ == 1 || !run.in_chunks) return body(Span{span.micro_batch, kWhole, span.pass});
  const std::set<Key> building_before = building_;
  for (int chunk = 0; chunk < chunks_; ++chunk) {
    std::vector<Key> added;
    std::vector<Key>* const added_before = std::exchange(added_, &added);
    body(Span{span.micro_batch, chunk, span.pass});
    added_ = added_before;
    for (const Key& key : added) on_device_.erase(key);
  }
  building_ = building_before;
}

Operand ValueFlow::Output(int segment, const OpNode& node, int output, const Span& span) {
  if (node.op->in_place() && output == node.inputs[0]) return Input(segment, output, span);
  if (chain_[segment].graph->values[output].origin == ValueOrigin::kState) {
    return StateOperand(segment, output);
  }
  const ValueId id{segment, output};
  const bool whole = IsWhole(id);
  const Key key = KeyOf(id, span);
  const auto found = on_device_.find(key);
  if (found != on_device_.end()) {
    if (building_.contains(key)) return ValueOperand(found->second, Spec(id), span, whole);
    // A kept value that is computed once more, beside one that is missing, goes to scratch memory.
    const bool all_rows = span.chunk == kWhole;
    return ValueOperand(NewValueBuffer(id, span, all_rows), Spec(id), span, all_rows);
  }
  const int buffer = NewValueBuffer(id, span, whole);
  on_device_[key] = buffer;
  if (!whole) {
    added_->push_back(key);
  } else if (span.chunk != kWhole) {
    building_.insert(key);
  }
  return ValueOperand(buffer, Spec(id), span, whole);
}

void ValueFlow::RunForward(int segment, int n, const Span& span, const char* verb) {
  const OpNode& node = chain_[segment].graph->nodes[n];
  const std::string name = NodeName(verb, segment, node, span);
  OpAction action;
  action.op = node.op.get();
  action.direction = Direction::kForward;
  for (const int input : node.inputs) action.inputs.push_back(Input(segment, input, span));
  for (const int output : node.outputs) {
    action.outputs.push_back(Output(segment, node, output, span));
  }
  for (const WeightRef& ref : node.weights) action.weights.push_back(traffic_.Weight(segment, ref));
  action.workspace = Workspace(node, Direction::kForward, span, name);
  action.cu_seqlens = CuSeqlens(span.micro_batch);
  AddOp(name, std::move(action), span);
}

void ValueFlow::Forward(int segment, const std::vector<bool>& runs, int micro_batch, int pass) {
  for (const RowRun& run : runs_[segment].runs) {
    ForChunks(run, {micro_batch, kWhole, pass}, [&](const Span& span) {
      for (int n = run.first; n <= run.last; ++n) {
        if (runs[n]) RunForward(segment, n, span, "forward");
      }
    });
  }
}

void ValueFlow::Offload(int segment, const std::vector<SegmentPlan>& plans, int micro_batch,
                        int pass) {
  for (const ValueId& id : kept_) {
    if (id.segment != segment || TierOf(chain_, plans, id) != Tier::kHost) continue;
    const std::string name = Name(id, micro_batch);
    const Key key{id, micro_batch, kWhole};
    const int device = on_device_.at(key);
    const int host = writer_.NewBuffer(name + ".host", kHostSpace, Spec(id).Bytes(capacity_));
    on_host_[key] = host;
    writer_.Copy(kD2hLane, "offload " + name, WholeValue(device, Spec(id)),
                 WholeValue(host, Spec(id)), micro_batch, pass);
    writer_.Hold(device);
  }
}

void ValueFlow::EndForward(const std::vector<SegmentPlan>& plans) {
  std::erase_if(on_device_, [&](const auto& entry) {
    const ValueId& id = entry.first.id;
    return !kept_.contains(id) || TierOf(chain_, plans, id) != Tier::kDevice;
  });
}

void ValueFlow::ReloadValue(const ValueId& id, int micro_batch, int pass) {
  const std::string name = Name(id, micro_batch);
  const Key key{id, micro_batch, kWhole};
  const int device = NewValueBuffer(id, {micro_batch, kWhole, pass}, true);
  on_device_[key] = device;
  writer_.Copy(kH2dLane, "reload " + name, WholeValue(on_host_.at(key), Spec(id)),
               WholeValue(device, Spec(id)), micro_batch, pass);
}

void ValueFlow::Reload(const BackwardBlock& block, int micro_batch, int pass, int slot) {
  for (const ValueId& id : block.kept_reads) {
    const Key key{id, micro_batch, kWhole};
    int& wanted = wanted_.try_emplace(key, slot).first->second;
    wanted = std::max(wanted, slot);
    if (!on_device_.contains(key) && on_host_.contains(key)) ReloadValue(id, micro_batch, pass);
  }
}

void ValueFlow::EnsureInputs(const ValueId& id, int writer, const Span& span) {
  for (const int input : chain_[id.segment].graph->nodes[writer].inputs) {
    if (input != id.value) Ensure(id.segment, input, span);
  }
}

void ValueFlow::Ensure(int segment, int value, const Span& span) {
  if (chain_[segment].graph->values[value].origin == ValueOrigin::kBatch) return;
  const ValueId id = Canonical(chain_, segment, value);
  const Key key = KeyOf(id, span);
  if (on_device_.contains(key)) return;
  if (on_host_.contains(key)) return ReloadValue(id, span.micro_batch, span.pass);
  if (IsWhole(id)) return RecomputeWhole(id, span);
  for (const int writer : WritersOf(*chain_[id.segment].graph, id.value)) {
    EnsureInputs(id, writer, span);
    RunForward(id.segment, writer, span, "recompute");
  }
}

// All rows of it, whatever span asked: others will read the rest.
void ValueFlow::RecomputeWhole(const ValueId& id, const Span& span) {
  const RowRuns& runs = runs_[id.segment];
  const std::vector<int> writers = WritersOf(*chain_[id.segment].graph, id.value);
  for (size_t begin = 0; begin < writers.size();) {
    const int run = runs.run_of_node[writers[begin]];
    size_t end = begin;
    while (end < writers.size() && runs.run_of_node[writers[end]] == run) ++end;
    ForChunks(runs.runs[run], span, [&](const Span& part) {
      for (size_t w = begin; w < end; ++w) {
        EnsureInputs(id, writers[w], part);
        RunForward(id.segment, writers[w], part, "recompute");
      }
    });
    begin = end;
  }
}

void ValueFlow::Backward(const BackwardBlock& block, const GradientFlow& flow, int micro_batch,
                         int pass) {
  for (int s = block.last; s >= block.first; --s) {
    const std::vector<RowRun>& runs = runs_[s].runs;
    for (auto run = runs.rbegin(); run != runs.rend(); ++run) {
      ForChunks(*run, {micro_batch, kWhole, pass}, [&](const Span& span) {
        for (int n = run->last; n >= run->first; --n) {
          if (flow.node_runs_backward[s][n]) RunBackward(s, n, flow, span);
        }
      });
    }
  }
}

void ValueFlow::EndBackward(const BackwardBlock& block, int micro_batch, int slot) {
  std::erase_if(on_device_, [&](const auto& entry) {
    if (entry.first.micro_batch != micro_batch) return false;
    if (entry.first.id.segment >= block.first) return true;
    const auto wanted = wanted_.find(entry.first);
    return on_host_.contains(entry.first) && (wanted == wanted_.end() || wanted->second <= slot);
  });
}

Operand ValueFlow::OutputGradient(const ValueId& id, const Span& span) const {
  const auto found =
      gradients_.find({id, span.micro_batch, GradientIsWhole(id) ? kWhole : span.chunk});
  if (found == gradients_.end()) return {};
  return ValueOperand(found->second.buffer, Spec(id), span, found->second.whole);
}

void ValueFlow::RunBackward(int segment, int n, const GradientFlow& flow, const Span& span) {
  const OpNode& node = chain_[segment].graph->nodes[n];
  const BackwardNeeds needs = node.op->backward_needs();
  for (const int i : needs.inputs) Ensure(segment, node.inputs[i], span);
  for (const int i : needs.outputs) Ensure(segment, node.outputs[i], span);

  const std::string name = NodeName("backward", segment, node, span);
  OpAction action;
  action.op = node.op.get();
  action.direction = Direction::kBackward;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const bool needed = Contains(needs.inputs, static_cast<int>(i));
    action.inputs.push_back(needed ? Input(segment, node.inputs[i], span) : Operand{});
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.op->backward_computes_outputs()) {
      action.outputs.push_back(Output(segment, node, node.outputs[i], span));
    } else {
      const bool needed = Contains(needs.outputs, static_cast<int>(i));
      action.outputs.push_back(needed ? Input(segment, node.outputs[i], span) : Operand{});
    }
    action.d_outputs.push_back(OutputGradient({segment, node.outputs[i]}, span));
  }
  AddInputGradients(segment, node, flow, span, action);
  for (const WeightRef& ref : node.weights) {
    action.weights.push_back(needs.weights ? traffic_.Weight(segment, ref) : Operand{});
    action.d_weights.push_back(traffic_.Gradient(segment, ref));
    action.accumulate_weights.push_back(traffic_.Accumulates(segment, ref));
  }
  action.workspace = Workspace(node, Direction::kBackward, span, name);
  action.cu_seqlens = CuSeqlens(span.micro_batch);
  AddOp(name, std::move(action), span);
}

void ValueFlow::AddInputGradients(int segment, const OpNode& node, const GradientFlow& flow,
                                  const Span& span, OpAction& action) {
  const int residual = node.op->residual_input();
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const auto position = static_cast<int>(i);
    action.accumulate_inputs.push_back(false);
    action.d_inputs.emplace_back();
    if (!node.op->differentiable(position)) continue;
    const ValueId id = Canonical(chain_, segment, node.inputs[i]);
    if (!flow.value_needs_gradient[id.segment][id.value]) continue;
    if (node.op->in_place() && i == 0) {
      action.d_inputs.back() = OutputGradient(id, span);  // turns in its place
      continue;
    }
    const bool passes = position == residual && action.d_outputs[0].present();
    bool accumulate = false;
    const ValueId output{segment, node.outputs[0]};
    action.d_inputs.back() = InputGradient(id, span, passes ? &output : nullptr, accumulate);
    action.accumulate_inputs.back() = accumulate;
  }
}

// Where an input's gradient goes: to what others gave it in these rows, if they did; else, for the
// residual of `residual_of`, to where that value's gradient is, which only changes its name; else
// to memory of its own.
Operand ValueFlow::InputGradient(const ValueId& id, const Span& span, const ValueId* residual_of,
                                 bool& accumulate) {
  const bool whole = GradientIsWhole(id);
  Gradient& gradient = gradients_[{id, span.micro_batch, whole ? kWhole : span.chunk}];
  accumulate = span.chunk == kWhole
                   ? !gradient.written.empty()
                   : gradient.written.contains(span.chunk) || gradient.written.contains(kWhole);
  if (gradient.buffer < 0) {
    const Gradient* passed = nullptr;
    if (residual_of != nullptr) {
      const bool output_whole = GradientIsWhole(*residual_of);
      passed = &gradients_.at({*residual_of, span.micro_batch, output_whole ? kWhole : span.chunk});
    }
    // A chunk's memory cannot hold all rows.
    if (passed != nullptr && (passed->whole || !whole)) {
      gradient.buffer = passed->buffer;
      gradient.whole = passed->whole;
    } else {
      gradient.buffer = NewValueBuffer(id, span, whole, ".gradient");
      gradient.whole = whole;
    }
  }
  gradient.written.insert(span.chunk);
  return ValueOperand(gradient.buffer, Spec(id), span, gradient.whole);
}

void ValueFlow::StoreResults(int micro_batch, int pass) {
  const int last = static_cast<int>(chain_.size()) - 1;
  for (const int value : ResultValues(*chain_[last].graph)) {
    const ValueId id{last, value};
    const auto found = on_device_.find({id, micro_batch, kWhole});
    if (found == on_device_.end()) continue;
    const std::string name = Name(id, micro_batch);
    const int host = writer_.NewBuffer(name + ".host", kHostSpace, Spec(id).Bytes(capacity_));
    writer_.program().results[micro_batch][Spec(id).name] = host;
    writer_.Copy(kD2hLane, "store " + name, WholeValue(found->second, Spec(id)),
                 WholeValue(host, Spec(id)), micro_batch, pass);
  }
}

}  // namespace lazytrain
