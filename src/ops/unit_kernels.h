// Kernels that work on whole weight units: rounding and summing gradients, updating weights.
// Parameters are visited one by one, in order; padding between them is never read.
#pragma once

#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "device/device.h"

namespace lazytrain {

// A trainable parameter inside its unit (model/unit.h has the full description).
struct UnitParameter {
  int64_t elements = 0;
  int64_t element_offset = 0;  // in gradients and optimizer states
  int64_t byte_offset = 0;     // in the weights
  DType dtype = DType::kF32;   // of the weights
  bool decays = false;
};

// Elements whose squares are summed into one partial sum. Fixed: the norm is the same wherever and
// in however many pieces it is made.
inline constexpr int64_t kNormChunk = 65536;

// Partial sums that a unit's parameters give: for each parameter, its elements / kNormChunk rounded
// up.
int64_t PartialSumCount(const std::vector<UnitParameter>& parameters);

// stored = accumulator rounded to `dtype`, and, unless partial_sums is null, the sum of squares of
// the stored values of each chunk (float64, in a fixed order).
// stored may be the accumulator itself: then values are rounded to `dtype` where they are.
struct RoundGradientArgs {
  const std::vector<UnitParameter>* parameters = nullptr;
  float* accumulator = nullptr;
  void* stored = nullptr;
  DType dtype = DType::kF32;  // what the values are rounded to
  bool in_place = false;      // stored is the accumulator: float32 elements, rounded values
  double* partial_sums = nullptr;
};

// accumulator = (add ? accumulator : 0) + stored, widened to float32.
struct WidenGradientArgs {
  const std::vector<UnitParameter>* parameters = nullptr;
  float* accumulator = nullptr;
  const void* stored = nullptr;
  DType dtype = DType::kF32;
  bool add = false;
};

// The scalars of one AdamW step, computed once on the host for every unit wherever it is updated.
struct AdamWScalars {
  float clip_factor = 1.0f;  // gradients are multiplied by it first
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float one_minus_beta1 = 0.1f;
  float one_minus_beta2 = 0.001f;
  float eps = 1e-8f;
  float decay = 1.0f;                  // 1 - learning_rate * weight_decay
  float step_size = 0.0f;              // learning_rate / (1 - beta1^step)
  float root_bias_correction2 = 1.0f;  // sqrt(1 - beta2^step)
};

// AdamW (Loshchilov and Hutter 2019) in float32:
//   g = clip_factor g;  w = decay w (matrices);  m = beta1 m + (1 - beta1) g;
//   v = beta2 v + (1 - beta2) g^2;  w = w - step_size m / (sqrt(v) / root_bias_correction2 + eps)
// Float32 weights are their own master. A bfloat16 weight h has an exact float32 master in 16 more
// bits: master bits = (h << 16) + low, low a signed 16-bit integer; h is the master rounded to
// nearest, halves away from zero.
struct AdamWArgs {
  const std::vector<UnitParameter>* parameters = nullptr;
  AdamWScalars scalars;
  std::byte* weights = nullptr;
  int16_t* master_low = nullptr;  // null when every parameter is float32
  float* moment1 = nullptr;
  float* moment2 = nullptr;
  const void* gradient = nullptr;
  DType gradient_dtype = DType::kF32;
};

struct UnitKernels {
  void (*round_gradient)(const RoundGradientArgs& args, LaneContext& context) = nullptr;
  void (*widen_gradient)(const WidenGradientArgs& args, LaneContext& context) = nullptr;
  void (*adamw)(const AdamWArgs& args, LaneContext& context) = nullptr;
};

const UnitKernels& UnitKernelsFor(const Device& device);

// The host's, whatever the device: they run on a lane of kind kHost.
const UnitKernels& HostUnitKernels();

}  // namespace lazytrain
