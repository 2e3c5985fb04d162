#include "ops/cpu/unit_kernels.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/units.h"
#include "device/cpu/cpu_lane_context.h"

namespace lazytrain::cpu {
namespace {

// A stretch of a parameter that one task handles; also the unit of the partial sums.
struct Chunk {
  const UnitParameter* parameter;
  int64_t begin;  // elements from the parameter's first
  int64_t size;
};

std::vector<Chunk> Chunks(const std::vector<UnitParameter>& parameters) {
  std::vector<Chunk> chunks;
  for (const UnitParameter& parameter : parameters) {
    for (int64_t begin = 0; begin < parameter.elements; begin += kNormChunk) {
      chunks.push_back({&parameter, begin, std::min(kNormChunk, parameter.elements - begin)});
    }
  }
  return chunks;
}

void ForEachChunk(const std::vector<UnitParameter>& parameters, LaneContext& context,
                  const std::function<void(const Chunk&, int64_t)>& task) {
  const std::vector<Chunk> chunks = Chunks(parameters);
  static_cast<CpuLaneContext&>(context).threads().Run(
      static_cast<int64_t>(chunks.size()),
      [&](int64_t i) { task(chunks[static_cast<size_t>(i)], i); });
}

// Sums in kLanes interleaved strands, then the strands in order: vectorises, and never changes.
constexpr int64_t kLanes = 8;

template <typename Stored>
double RoundChunk(const float* from, Stored* to, int64_t size) {
  double strands[kLanes] = {};
  const int64_t whole = size / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      to[i + lane] = FromFloat<Stored>(from[i + lane]);
      const double value = ToFloat(to[i + lane]);
      strands[lane] += value * value;
    }
  }
  for (int64_t i = whole; i < size; ++i) {
    to[i] = FromFloat<Stored>(from[i]);
    const double value = ToFloat(to[i]);
    strands[i - whole] += value * value;
  }
  double sum = 0;
  for (const double strand : strands) sum += strand;
  return sum;
}

double RoundChunkInPlace(float* values, int64_t size) {
  double strands[kLanes] = {};
  for (int64_t i = 0; i < size; ++i) {
    values[i] = ToFloat(ToBFloat16(values[i]));
    strands[i % kLanes] += static_cast<double>(values[i]) * values[i];
  }
  double sum = 0;
  for (const double strand : strands) sum += strand;
  return sum;
}

void RoundGradient(const RoundGradientArgs& args, LaneContext& context) {
  ForEachChunk(*args.parameters, context, [&](const Chunk& chunk, int64_t index) {
    const int64_t at = chunk.parameter->element_offset + chunk.begin;
    float* from = args.accumulator + at;
    double sum = 0;
    if (args.in_place && args.dtype == DType::kBF16) {
      sum = RoundChunkInPlace(from, chunk.size);
    } else if (args.dtype == DType::kBF16) {
      sum = RoundChunk(from, static_cast<BFloat16*>(args.stored) + at, chunk.size);
    } else {
      float* to = args.in_place ? from : static_cast<float*>(args.stored) + at;
      sum = RoundChunk(from, to, chunk.size);
    }
    if (args.partial_sums != nullptr) args.partial_sums[index] = sum;
  });
}

template <typename Stored>
void WidenChunk(const Stored* from, float* to, int64_t size, bool add) {
  if (add) {
    for (int64_t i = 0; i < size; ++i) to[i] += ToFloat(from[i]);
  } else {
    for (int64_t i = 0; i < size; ++i) to[i] = ToFloat(from[i]);
  }
}

void WidenGradient(const WidenGradientArgs& args, LaneContext& context) {
  ForEachChunk(*args.parameters, context, [&](const Chunk& chunk, int64_t) {
    const int64_t at = chunk.parameter->element_offset + chunk.begin;
    float* to = args.accumulator + at;
    if (args.dtype == DType::kBF16) {
      WidenChunk(static_cast<const BFloat16*>(args.stored) + at, to, chunk.size, args.add);
    } else {
      WidenChunk(static_cast<const float*>(args.stored) + at, to, chunk.size, args.add);
    }
  });
}

// A float32 master: the weight itself, or a bfloat16 weight and 16 more bits.
struct Float32Master {
  float* weights;
  float Load(int64_t i) const { return weights[i]; }
  void Store(int64_t i, float value) const { weights[i] = value; }
};

struct SplitMaster {
  BFloat16* weights;
  int16_t* low;
  float Load(int64_t i) const { return Join({weights[i], low[i]}); }
  void Store(int64_t i, float value) const {
    const SplitFloat split = Split(value);
    weights[i] = split.high;
    low[i] = split.low;
  }
};

template <typename Master, typename Gradient>
void AdamWChunk(const AdamWScalars& s, float decay, const Master& master, const Gradient* gradient,
                float* moment1, float* moment2, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    const float g = ToFloat(gradient[i]) * s.clip_factor;
    const float m = std::fma(s.beta1, moment1[i], s.one_minus_beta1 * g);
    const float v = std::fma(s.beta2, moment2[i], s.one_minus_beta2 * g * g);
    const float w = master.Load(i) * decay;
    const float denominator = std::sqrt(v) / s.root_bias_correction2 + s.eps;
    moment1[i] = m;
    moment2[i] = v;
    master.Store(i, std::fma(-s.step_size, m / denominator, w));
  }
}

template <typename Gradient>
void AdamWUnit(const AdamWArgs& args, LaneContext& context) {
  ForEachChunk(*args.parameters, context, [&](const Chunk& chunk, int64_t) {
    const UnitParameter& parameter = *chunk.parameter;
    const int64_t at = parameter.element_offset + chunk.begin;
    const auto* gradient = static_cast<const Gradient*>(args.gradient) + at;
    std::byte* weights = args.weights + parameter.byte_offset;
    const float decay = parameter.decays ? args.scalars.decay : 1.0f;
    float* m = args.moment1 + at;
    float* v = args.moment2 + at;
    if (parameter.dtype == DType::kF32) {
      const Float32Master master{reinterpret_cast<float*>(weights) + chunk.begin};
      AdamWChunk(args.scalars, decay, master, gradient, m, v, chunk.size);
    } else {
      const SplitMaster master{reinterpret_cast<BFloat16*>(weights) + chunk.begin,
                               args.master_low + at};
      AdamWChunk(args.scalars, decay, master, gradient, m, v, chunk.size);
    }
  });
}

void AdamW(const AdamWArgs& args, LaneContext& context) {
  if (args.gradient_dtype == DType::kBF16) {
    AdamWUnit<BFloat16>(args, context);
  } else {
    AdamWUnit<float>(args, context);
  }
}

}  // namespace

const UnitKernels& HostKernels() {
  static constexpr UnitKernels kKernels = {RoundGradient, WidenGradient, AdamW};
  return kKernels;
}

}  // namespace lazytrain::cpu
