// A model as a graph: segments (embedding, layers, head), each a short list of ops on named values.
// From this alone follow what may be kept, what must be recomputed to get a missing value, and the
// cost of both. Layers of one shape share one SegmentGraph.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/unit.h"
#include "ops/op.h"

namespace lazytrain {

enum class ValueOrigin {
  kBatch,   // a tensor of the batch, by name: "input_ids", "positions", ...
  kLiveIn,  // a live-out of an earlier segment
  kOp,      // written by an op of this segment
  kState,   // what an op keeps between runs (Op::continuation)
};

struct ValueSpec {
  std::string name;
  DType dtype = DType::kF32;
  Extent extent = Extent::kTokens;
  int64_t cols = 0;
  ValueOrigin origin = ValueOrigin::kOp;

  int64_t Bytes(const RowCounts& rows) const { return rows.rows(extent) * cols * SizeOf(dtype); }
};

// A parameter an op reads: of the unit in the segment's slot `slot`.
struct WeightRef {
  int slot = 0;
  int parameter = 0;
  bool operator==(const WeightRef&) const = default;
};

struct OpNode {
  std::string name;  // "qkv_proj"
  std::shared_ptr<const Op> op;
  std::vector<int> inputs;  // values of the segment; an in-place op has inputs[0] == outputs[0]
  std::vector<int> outputs;
  std::vector<WeightRef> weights;
};

// Values that are kept or dropped together.
struct ValueGroup {
  std::string name;
  std::vector<int> values;
};

struct SegmentGraph {
  std::string name;
  std::vector<ValueSpec> values;
  std::vector<OpNode> nodes;       // in an order that computes every value before its use
  std::vector<ValueGroup> groups;  // every value of origin kOp is in exactly one

  int FindValue(std::string_view name) const;  // -1: none
  int FindGroup(std::string_view name) const;  // -1: none
  // Everything that two graphs have to agree on to be one.
  std::string Signature() const;
};

// Where a live-in comes from.
struct ValueSource {
  int segment = 0;
  int value = 0;
};

// A SegmentGraph in its place in a model.
struct Segment {
  std::string name;  // "layers.0"
  std::shared_ptr<const SegmentGraph> graph;
  std::vector<int> units;             // for each slot, a unit of the model
  std::vector<ValueSource> live_ins;  // for each value of origin kLiveIn, in the order of values
};

// Segments in the order of the forward sweep. The last one's outputs are what the chain is for.
using SegmentChain = std::vector<Segment>;

struct ModelGraph {
  std::string architecture;  // "qwen2"
  int64_t vocab_size = 0;
  int64_t max_positions = 0;  // tokens of context
  DType dtype = DType::kF32;
  std::vector<UnitSpec> units;
  SegmentChain loss;        // ends in token_loss
  SegmentChain logits;      // ends in logits of the selected rows
  SegmentChain generation;  // the same, continuing from states (model/continuation.h)

  int64_t ParameterCount() const;
  // A digest of units and shapes: schedules, programs and checkpoints of two models agree on it or
  // are not interchangeable.
  std::string ShapeHash() const;
};

// Where live-in `value` of chain[segment] is computed, following segments that pass it through.
ValueSource SourceOf(const SegmentChain& chain, int segment, int value);

// Builds a SegmentGraph and checks it as it grows; broken graphs throw InternalError.
class GraphBuilder {
 public:
  GraphBuilder(std::string name, DType dtype);

  int Batch(std::string name, DType dtype, Extent extent = Extent::kTokens, int64_t cols = 1);
  int LiveIn(std::string name, int64_t cols, Extent extent = Extent::kTokens);
  // A value that the next op writes. `group` names the group it is kept with (empty: its own name).
  int Value(std::string name, int64_t cols, std::string group = "");
  int Value(std::string name, DType dtype, Extent extent, int64_t cols, std::string group = "");
  void Add(std::string name, std::shared_ptr<const Op> op, std::vector<int> inputs,
           std::vector<int> outputs, std::vector<WeightRef> weights = {});

  DType dtype() const { return dtype_; }
  const ValueSpec& value(int value) const { return graph_->values[value]; }
  std::shared_ptr<const SegmentGraph> Finish();

 private:
  DType dtype_;
  std::shared_ptr<SegmentGraph> graph_;
};

}  // namespace lazytrain
