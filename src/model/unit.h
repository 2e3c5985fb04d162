// Weight units: the pieces in which weights, gradients and optimizer states move and are updated. A
// dense layer is one unit; embedding and head are units; experts or adapters would be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/tensor.h"

namespace lazytrain {

// A tensor as the hub names and shapes it, and where it lies inside a parameter.
struct HubTensor {
  std::string name;    // "model.layers.0.self_attn.q_proj.weight"
  Shape shape;         // as in the safetensors file
  int64_t offset = 0;  // elements from the parameter's first
  // Not negative: this is one entry, along the first dimension, of a stored tensor that stacks
  // several (all experts of a layer); `shape` is the entry's.
  int64_t entry = -1;
};

enum class Init { kNormal, kOnes, kZeros };

// One operand of an op. Several hub tensors may lie in it one after the other (query, key and value
// projections), so that one product serves them all.
struct ParameterSpec {
  std::string name;  // within the unit: "qkv.weight"
  int64_t rows = 0;
  int64_t cols = 0;
  DType dtype = DType::kF32;
  bool trainable = true;
  bool decays = false;  // weight decay: matrices only
  Init init = Init::kNormal;
  std::vector<HubTensor> tensors;

  // Where the parameter lies in its unit; both set by UnitSpec::Add. Elements count parameters of
  // any dtype alike and place gradients and optimizer states; bytes place the weights themselves.
  int64_t element_offset = 0;
  int64_t byte_offset = 0;

  int64_t elements() const { return rows * cols; }
  int64_t bytes() const { return elements() * SizeOf(dtype); }
};

struct UnitSpec {
  std::string name;  // "layers.0"
  std::vector<ParameterSpec> parameters;
  int64_t elements = 0;  // with padding between parameters
  int64_t bytes = 0;     // of the weights, with padding

  // Places `parameter` behind those that are there and returns its position.
  int Add(ParameterSpec parameter);
  // Parameters without padding.
  int64_t ParameterCount() const;
};

}  // namespace lazytrain
