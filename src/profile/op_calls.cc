#include "profile/op_calls.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/random.h"
#include "core/units.h"

namespace lazytrain {
namespace {

constexpr double kWeightDeviation = 0.02;  // of initial weights; trained ones are of that size, too
constexpr double kValueDeviation = 1.0;
// Random bytes that are made once and repeated.
constexpr int64_t kPatternBytes = int64_t{16} << 20;

// Memory by what is done with it.
enum Region : int {
  kBatch,    // ids and positions: written once
  kValues,   // read
  kWeights,  // read: smaller numbers
  kTurned,   // read and written, by what works in place
  kScratch,  // written
  kRegions,
};

using CallKey = std::pair<std::string, Direction>;

// Gives the operands of every call their places: each call's begin where its regions do, but for
// the batch, which all calls share by name.
class Layout {
 public:
  Layout(const Device& device, const ModelGraph& model, const RowCounts& rows)
      : kernels_(KernelsFor(device)), model_(model), rows_(rows) {
    Lay(nullptr);
    std::swap(bytes_, used_);
  }

  int64_t bytes() const {
    int64_t bytes = 0;
    for (const int64_t region : bytes_) bytes += region;
    return bytes;
  }
  std::byte* region(Region region) const { return bases_[region]; }
  int64_t region_bytes(Region region) const { return bytes_[region]; }
  const std::map<std::string, TensorView>& batch() const { return batch_; }

  // All calls, their operands in a block of bytes() from `base` on.
  std::vector<OpCall> Lay(std::byte* base) {
    used_ = {};
    cursors_ = {};
    batch_.clear();
    for (int r = 0; r < kRegions; ++r) {
      bases_[r] = base;
      if (base != nullptr) base += bytes_[r];
    }
    std::vector<OpCall> calls;
    std::set<CallKey> seen;
    for (const Segment& segment : model_.loss) {
      for (const OpNode& node : segment.graph->nodes) {
        for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
          // Ops for planning only keep their estimates.
          if (!kernels_.Has(*node.op, direction)) continue;
          if (!seen.insert({node.op->Signature(), direction}).second) continue;
          calls.push_back({node.op.get(), direction, kernels_.Find(*node.op, direction),
                           Operands(segment, node, direction)});
        }
      }
    }
    return calls;
  }

 private:
  std::byte* Take(Region region, int64_t bytes) {
    std::byte* at = bases_[region] == nullptr ? nullptr : bases_[region] + cursors_[region];
    cursors_[region] += RoundUp(std::max<int64_t>(bytes, 1), kAlignment);
    used_[region] = std::max(used_[region], cursors_[region]);
    return at;
  }

  TensorView View(Region region, DType dtype, int64_t rows, int64_t cols) {
    return {Take(region, rows * cols * SizeOf(dtype)), dtype, rows, cols, nullptr};
  }
  TensorView View(Region region, const ValueSpec& value) {
    return View(region, value.dtype, rows_.rows(value.extent), value.cols);
  }

  TensorView Batch(const std::string& name, int64_t rows, int64_t cols) {
    const auto found = batch_.find(name);
    if (found != batch_.end()) return found->second;
    return batch_[name] = View(kBatch, DType::kI32, rows, cols);
  }

  TensorView Input(const ValueSpec& value) {
    if (value.dtype != DType::kI32) return View(kValues, value);
    return Batch(value.name, rows_.rows(value.extent), value.cols);
  }

  OpArgs Operands(const Segment& segment, const OpNode& node, Direction direction) {
    for (const Region region : {kValues, kWeights, kTurned, kScratch}) cursors_[region] = 0;
    const SegmentGraph& graph = *segment.graph;
    const bool backward = direction == Direction::kBackward;
    OpArgs args;
    std::map<int, TensorView> values;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const int v = node.inputs[i];
      if (!values.contains(v)) {
        const bool turned = node.op->in_place() && i == 0 && !backward;
        values[v] = turned ? View(kTurned, graph.values[v]) : Input(graph.values[v]);
      }
      args.inputs.push_back(values.at(v));
    }
    // A loss computes its outputs in backward; other backwards only read theirs.
    const bool read_only = backward && !node.op->backward_computes_outputs();
    for (const int v : node.outputs) {
      if (!values.contains(v)) values[v] = View(read_only ? kValues : kScratch, graph.values[v]);
      args.outputs.push_back(values.at(v));
    }
    for (const WeightRef& ref : node.weights) {
      const ParameterSpec& p = model_.units[segment.units[ref.slot]].parameters[ref.parameter];
      args.weights.push_back(View(kWeights, p.dtype, p.rows, p.cols));
      if (!backward) continue;
      args.d_weights.push_back(View(kScratch, DType::kF32, p.rows, p.cols));
      args.accumulate_weights.push_back(true);
    }
    if (backward) AddGradients(graph, node, args);
    args.workspace = Take(kScratch, kernels_.WorkspaceBytes(*node.op, direction, rows_));
    args.batch.rows = rows_;
    args.batch.cu_seqlens_device = Batch("cu_seqlens", rows_.documents + 1, 1).as<int32_t>();
    return args;
  }

  // A residual's gradient is its sum's, and what works in place turns the gradient in place.
  void AddGradients(const SegmentGraph& graph, const OpNode& node, OpArgs& args) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const bool turned = node.op->in_place() && i == 0;
      args.d_outputs.push_back(View(turned ? kTurned : kValues, graph.values[node.outputs[i]]));
    }
    const int residual = node.op->residual_input();
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const auto position = static_cast<int>(i);
      TensorView gradient;
      if (position == residual || (node.op->in_place() && i == 0)) {
        gradient = args.d_outputs[0];
      } else if (node.op->differentiable(position)) {
        gradient = View(kScratch, graph.values[node.inputs[i]]);
      }
      args.d_inputs.push_back(gradient);
      args.accumulate_inputs.push_back(false);
    }
  }

  const KernelTable& kernels_;
  const ModelGraph& model_;
  const RowCounts rows_;
  std::array<int64_t, kRegions> bytes_ = {};
  std::array<int64_t, kRegions> used_ = {};
  std::array<int64_t, kRegions> cursors_ = {};
  std::array<std::byte*, kRegions> bases_ = {};
  std::map<std::string, TensorView> batch_;
};

// Writes operands to the device.
class Filler {
 public:
  explicit Filler(Device& device)
      : device_(device), lane_(device.MakeLane(LaneKind::kHostToDevice, "h2d")) {}

  // bfloat16 numbers; two of them are a float32 of the same distribution but for its last bits.
  void Normal(std::byte* target, int64_t bytes, double deviation) {
    if (bytes == 0) return;
    const int64_t piece = std::min(kPatternBytes, bytes);
    Random random(static_cast<uint64_t>(bytes));
    std::vector<BFloat16> table(4096);
    for (BFloat16& x : table) x = ToBFloat16(static_cast<float>(deviation * random.Normal()));
    const std::unique_ptr<MemoryBlock> host = device_.AllocateHost(piece);
    auto* numbers = reinterpret_cast<BFloat16*>(host->base());
    for (int64_t i = 0; i < piece / 2; ++i) numbers[i] = table[random.Next() >> 52];
    for (int64_t at = 0; at < bytes; at += piece) {
      lane_->Copy(target + at, numbers, std::min(piece, bytes - at), {});
    }
    device_.Synchronize();
  }

  void Batch(const Layout& layout, const ModelGraph& model, const RowCounts& rows,
             const int32_t* cu_seqlens) {
    Random random(1);
    for (const auto& [name, view] : layout.batch()) {
      const std::unique_ptr<MemoryBlock> host =
          device_.AllocateHost(RoundUp(std::max<int64_t>(view.bytes(), 1), kAlignment));
      auto* numbers = reinterpret_cast<int32_t*>(host->base());
      const bool ids = name == "input_ids" || name == "targets";
      for (int64_t i = 0; i < view.size(); ++i) {
        int64_t number = i / view.cols;
        if (name == "cu_seqlens") number = cu_seqlens[i];
        if (name == "positions") number %= rows.longest_document;
        if (ids) number = random.Between(0, model.vocab_size - 1);
        numbers[i] = static_cast<int32_t>(number);
      }
      lane_->Copy(view.data, numbers, view.bytes(), {});
      device_.Synchronize();
    }
  }

 private:
  Device& device_;
  std::unique_ptr<Lane> lane_;
};

// The sweeps of a step with each shape of segment a few times only.
std::vector<int> RoundOf(const SegmentChain& chain, const std::vector<OpCall>& calls,
                         int64_t most_repeats) {
  std::map<CallKey, int> positions;
  for (const OpCall& call : calls) {
    positions[{call.op->Signature(), call.direction}] = static_cast<int>(positions.size());
  }
  std::map<const SegmentGraph*, int64_t> times;
  std::vector<const SegmentGraph*> sweep;
  for (const Segment& segment : chain) {
    if (++times[segment.graph.get()] <= most_repeats) sweep.push_back(segment.graph.get());
  }
  std::vector<int> round;
  const auto add = [&](const OpNode& node, Direction direction) {
    const auto found = positions.find({node.op->Signature(), direction});
    if (found != positions.end()) round.push_back(found->second);
  };
  for (const SegmentGraph* graph : sweep) {
    for (const OpNode& node : graph->nodes) add(node, Direction::kForward);
  }
  for (auto graph = sweep.rbegin(); graph != sweep.rend(); ++graph) {
    const std::vector<OpNode>& nodes = (*graph)->nodes;
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      add(*node, Direction::kBackward);
    }
  }
  return round;
}

}  // namespace

OpCalls::OpCalls(Device& device, const ModelGraph& model, const RowCounts& rows,
                 int64_t most_repeats) {
  Layout layout(device, model, rows);
  block_ = device.AllocateDevice(layout.bytes());
  calls_ = layout.Lay(block_->base());
  cu_seqlens_ = device.AllocateHost(RoundUp((rows.documents + 1) * 4, kAlignment));
  auto* cu_seqlens = reinterpret_cast<int32_t*>(cu_seqlens_->base());
  for (int64_t d = 0; d <= rows.documents; ++d) {
    cu_seqlens[d] = static_cast<int32_t>(rows.tokens * d / rows.documents);
  }
  for (OpCall& call : calls_) call.args.batch.cu_seqlens_host = cu_seqlens;
  Filler filler(device);
  for (const Region region : {kValues, kTurned, kScratch}) {
    filler.Normal(layout.region(region), layout.region_bytes(region), kValueDeviation);
  }
  filler.Normal(layout.region(kWeights), layout.region_bytes(kWeights), kWeightDeviation);
  filler.Batch(layout, model, rows, cu_seqlens);
  round_ = RoundOf(model.loss, calls_, most_repeats);
}

int64_t OpCalls::Bytes(const Device& device, const ModelGraph& model, const RowCounts& rows) {
  return Layout(device, model, rows).bytes();
}

}  // namespace lazytrain
