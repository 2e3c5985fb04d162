// What an operation is, apart from how it is computed: its attributes, what its backward reads, and
// what it costs. Kernels (ops/kernel.h) are found by backend and type().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"

namespace lazytrain {

enum class Direction { kForward, kBackward };

// What the rows of a value count.
enum class Extent {
  kTokens,       // one row a token of the micro-batch
  kSelected,     // one row a token whose logits are wanted
  kPatches,      // one row a patch of an image, where there is a vision tower
  kImageTokens,  // one row a token that an image becomes for the language model
  kContext,      // one row a token that a state has room for (Op::continuation)
};

// The sizes of a micro-batch that shapes, costs and workspaces are functions of; also used for
// capacities (the largest micro-batch a program can take).
struct RowCounts {
  int64_t tokens = 0;
  int64_t documents = 0;
  int64_t longest_document = 0;  // tokens
  int64_t selected = 0;
  int64_t patches = 0;
  int64_t image_tokens = 0;
  // Where rows continue a document: tokens that states have room for, and tokens before these.
  int64_t context = 0;
  int64_t cached = 0;
  // Sum over documents of length squared: what causal attention costs twice of.
  double squared_lengths = 0;

  int64_t rows(Extent extent) const {
    switch (extent) {
      case Extent::kTokens:
        return tokens;
      case Extent::kSelected:
        return selected;
      case Extent::kPatches:
        return patches;
      case Extent::kImageTokens:
        return image_tokens;
      case Extent::kContext:
        return context;
    }
    return 0;
  }
};

struct OpCost {
  double flops = 0;  // multiply-adds count twice
  double bytes = 0;  // read and written, each operand once
};

// What the backward of an op reads beside the gradients of its outputs.
struct BackwardNeeds {
  std::vector<int> inputs;   // positions among the op's inputs
  std::vector<int> outputs;  // positions among its outputs
  bool weights = true;       // whether it reads the weights themselves
};

class Op;

// An op in the form that continues a document from a state [context, state_cols], which is its last
// input and its second output.
struct Continuation {
  std::shared_ptr<const Op> op;  // null: rows do not look at others
  DType state_dtype = DType::kF32;
  int64_t state_cols = 0;
};

class Op {
 public:
  static constexpr int kNone = -1;

  virtual ~Op() = default;

  // "rms_norm", "linear", ...: also the name of its file and of its kernels.
  virtual std::string_view type() const = 0;
  virtual OpCost Cost(Direction direction, const RowCounts& rows) const = 0;
  // Scratch memory of one call; a constant of the capacity, never of what happens to be free.
  virtual int64_t WorkspaceBytes(Direction, const RowCounts& /*capacity*/) const { return 0; }

  virtual BackwardNeeds backward_needs() const = 0;
  // Input whose gradient contains the gradient of output 0 unchanged (a residual), or kNone: both
  // then share one buffer, which the input's other consumers add to.
  virtual int residual_input() const { return kNone; }
  // Whether output 0 is written over input 0 (they are one value of the graph).
  virtual bool in_place() const { return false; }
  // Inputs that never get a gradient (token ids, positions).
  virtual bool differentiable(int /*input*/) const { return true; }
  // Whether row t of what it writes depends on row t of what it reads alone (and on weights): such
  // an op may take a micro-batch in chunks of rows.
  virtual bool row_wise() const { return false; }
  // The form that goes on from rows that came before, for making text token by token.
  virtual Continuation continuation() const { return {}; }
  // Whether what the first `cached` tokens of a document gave is also what they give in one of
  // `total` tokens.
  virtual bool Continues(int64_t /*cached*/, int64_t /*total*/) const { return true; }
  // Whether the backward computes the op's outputs as well (a loss): its forward then only runs
  // where no gradient is wanted.
  virtual bool backward_computes_outputs() const { return false; }
  // Everything about the op that can change a bit of its result, for the numerics key.
  virtual std::string Signature() const = 0;
};

}  // namespace lazytrain
