// What family files are written with: the ops of a segment and the weights they read, side by side,
// and the segments of a model one after the other.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/family.h"
#include "model/graph.h"

namespace lazytrain {

inline constexpr int kNoValue = -1;

// A stored tensor by name and rows (of a vector: elements). Names are those of the hub after the
// segment's prefix.
struct HubRows {
  std::string name;
  int64_t rows = 0;
};

// A matrix [sum of rows, cols] of tensors that lie one after the other.
ParameterSpec MatrixOf(std::string name, DType dtype, int64_t cols,
                       const std::vector<HubRows>& tensors);
ParameterSpec VectorOf(std::string name, DType dtype, Init init,
                       const std::vector<HubRows>& tensors);

// A product with a weight: the parameter's name in its unit, the value it writes, the stored
// matrices without ".weight" and, if there is a bias, ".bias".
struct Projection {
  std::string name;
  std::string value;
  std::vector<HubRows> tensors;
  bool bias = false;
};

struct NormSpec {
  float eps = 1e-6f;
  float scale_offset = 0.0f;
};

class SegmentBuilder {
 public:
  // `name` is that of segment and unit ("layers.3"), `prefix` stands before every stored tensor's
  // ("model.layers.3.").
  SegmentBuilder(std::string name, std::string graph_name, std::string prefix, DType dtype);

  GraphBuilder& graph() { return graph_; }
  DType dtype() const { return graph_.dtype(); }
  int64_t cols(int value) const { return graph_.value(value).cols; }
  Extent extent(int value) const { return graph_.value(value).extent; }

  // A parameter of the segment's own unit; tensors are named with the prefix.
  WeightRef Weight(ParameterSpec parameter);
  WeightRef Matrix(std::string name, int64_t cols, const std::vector<HubRows>& tensors);
  WeightRef Vector(std::string name, Init init, const std::vector<HubRows>& tensors);
  // The stored shape of a parameter's only tensor, where it is not that of a matrix or vector.
  void SetShape(int parameter, Shape shape) {
    units_[0].parameters[static_cast<size_t>(parameter)].tensors[0].shape = std::move(shape);
  }
  // A unit beside the segment's own (an expert), its tensors named with the prefix. Returns its
  // slot.
  int AddUnit(UnitSpec unit);

  // Ops; each returns the value it writes, whose rows are those of `x`.
  int Norm(std::string value, int x, const std::string& tensor, const NormSpec& norm,
           int residual = kNoValue);
  int Project(const Projection& projection, int x, int residual = kNoValue);

 private:
  friend class ModelBuilder;

  std::string name_;
  std::string prefix_;
  GraphBuilder graph_;
  std::vector<UnitSpec> units_;  // by slot
};

class ModelBuilder {
 public:
  ModelBuilder(std::string architecture, const GraphOptions& options);

  const GraphOptions& options() const { return options_; }
  // Appends a segment that both chains have. `live_ins` are in the order of the graph's. Returns
  // the segment's place.
  int Add(SegmentBuilder segment, std::vector<ValueSource> live_ins = {});
  // The value `name` of segment `place`, or of the last one.
  ValueSource Find(int place, const std::string& name) const;
  ValueSource Last(const std::string& name = "out") const;
  // The unit "embedding", which a tied head shares.
  int embedding_unit() const;

  // Appends the heads, which share `unit` (slot 0) and, if `tied_unit` is not negative, that unit
  // (slot 1), and completes the model.
  ModelGraph Finish(UnitSpec unit, int tied_unit, std::shared_ptr<const SegmentGraph> loss,
                    std::shared_ptr<const SegmentGraph> logits, int64_t vocab_size,
                    int64_t max_positions);

 private:
  GraphOptions options_;
  ModelGraph model_;
  SegmentChain body_;
  std::map<std::string, std::shared_ptr<const SegmentGraph>> graphs_;  // by signature
};

}  // namespace lazytrain
