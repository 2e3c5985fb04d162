#include "device/cuda/nvtx_range.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda/unit_kernels.h"
#include "ops/cuda/vectors.cuh"

namespace lazytrain::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int N = 8;  // neighbouring elements that a thread takes
static_assert(kNormChunk % (kThreads * N) == 0);

// As ToBFloat16 of core/dtype.h, whose NaNs keep sign and payload, unlike the intrinsic's.
__device__ inline uint16_t RoundBits(float x) {
  const uint32_t u = __float_as_uint(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
__device__ inline float Widened(uint16_t bits) { return __uint_as_float(uint32_t{bits} << 16); }

// How gradients are stored: float32, bfloat16, or float32 rounded to bfloat16.
struct StoreFloat {
  using Type = float;
  __device__ static float Round(float x, float& stored) { return stored = x; }
};
struct StoreShort {
  using Type = uint16_t;
  __device__ static float Round(float x, uint16_t& stored) {
    stored = RoundBits(x);
    return Widened(stored);
  }
};
struct StoreRounded {
  using Type = float;
  __device__ static float Round(float x, float& stored) { return stored = Widened(RoundBits(x)); }
};

// A block a chunk. A thread adds up its elements in their order, then threads are added in theirs.
template <typename Store>
__global__ void RoundKernel(const float* from, typename Store::Type* to, int64_t elements,
                            double* partial_sums) {
  using Type = typename Store::Type;
  __shared__ double scratch[32];
  const int64_t begin = blockIdx.x * kNormChunk;
  const int64_t end = min(elements, begin + kNormChunk);
  double sum = 0.0;
#pragma unroll 2
  for (int64_t i = begin + int64_t{threadIdx.x} * N; i < end; i += int64_t{kThreads} * N) {
    if (i + N <= end) {
      const auto values = Vec<float, N>::Load(from + i);
      Vec<Type, N> stored;
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const double value = Store::Round(values.at[k], stored.at[k]);
        sum += value * value;
      }
      stored.Store(to + i);
    } else {
      for (int64_t k = i; k < end; ++k) {
        const double value = Store::Round(from[k], to[k]);
        sum += value * value;
      }
    }
  }
  if (partial_sums == nullptr) return;
  sum = ReduceBlock(sum, scratch, Sum());
  if (threadIdx.x == 0) partial_sums[blockIdx.x] = sum;
}

__device__ inline float Widen(float x) { return x; }
__device__ inline float Widen(uint16_t x) { return Widened(x); }

template <typename Stored>
__global__ void WidenKernel(const Stored* from, float* to, int64_t elements, bool add) {
  const int64_t begin = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * N;
  if (begin + N <= elements) {
    const auto values = Vec<Stored, N>::Load(from + begin);
    Vec<float, N> result;
    if (add) result = Vec<float, N>::Load(to + begin);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float value = Widen(values.at[k]);
      result.at[k] = add ? __fadd_rn(result.at[k], value) : value;
    }
    result.Store(to + begin);
    return;
  }
  for (int64_t i = begin; i < elements; ++i) {
    to[i] = add ? __fadd_rn(to[i], Widen(from[i])) : Widen(from[i]);
  }
}

// Every operation named, so that no compiler may merge what the host keeps apart.
__device__ inline float Step(const AdamWScalars& s, float decay, float gradient, float weight,
                             float& moment1, float& moment2) {
  const float g = __fmul_rn(gradient, s.clip_factor);
  moment1 = __fmaf_rn(s.beta1, moment1, __fmul_rn(s.one_minus_beta1, g));
  moment2 = __fmaf_rn(s.beta2, moment2, __fmul_rn(__fmul_rn(s.one_minus_beta2, g), g));
  const float denominator =
      __fadd_rn(__fdiv_rn(__fsqrt_rn(moment2), s.root_bias_correction2), s.eps);
  return __fmaf_rn(-s.step_size, __fdiv_rn(moment1, denominator), __fmul_rn(weight, decay));
}

// N elements of the master from `i` on, and back; as in ops/cpu/unit_kernels.cc.
template <int kCount>
struct Float32Master {
  float* weights;
  __device__ void Load(int64_t i, float (&values)[kCount]) const {
    const auto w = Vec<float, kCount>::Load(weights + i);
#pragma unroll
    for (int k = 0; k < kCount; ++k) values[k] = w.at[k];
  }
  __device__ void Store(int64_t i, const float (&values)[kCount]) const {
    PutVec<float, kCount>(weights + i, values, false);
  }
};

template <int kCount>
struct SplitMaster {
  uint16_t* weights;
  int16_t* low;
  __device__ void Load(int64_t i, float (&values)[kCount]) const {
    const auto h = Vec<uint16_t, kCount>::Load(weights + i);
    const auto l = Vec<int16_t, kCount>::Load(low + i);
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      values[k] = __uint_as_float((uint32_t{h.at[k]} << 16) +
                                  static_cast<uint32_t>(static_cast<int32_t>(l.at[k])));
    }
  }
  __device__ void Store(int64_t i, const float (&values)[kCount]) const {
    Vec<uint16_t, kCount> h;
    Vec<int16_t, kCount> l;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const uint32_t bits = __float_as_uint(values[k]);
      const uint32_t high = (bits + 0x8000u) >> 16;
      h.at[k] = static_cast<uint16_t>(high);
      l.at[k] = static_cast<int16_t>(static_cast<uint16_t>(bits - (high << 16)));
    }
    h.Store(weights + i);
    l.Store(low + i);
  }
};

template <int kCount, typename Master, typename Gradient>
__device__ void StepElements(const AdamWScalars& s, float decay, const Master& master, int64_t i,
                             const Gradient* gradient, float* moment1, float* moment2) {
  const auto g = Vec<Gradient, kCount>::Load(gradient + i);
  auto m = Vec<float, kCount>::Load(moment1 + i);
  auto v = Vec<float, kCount>::Load(moment2 + i);
  float w[kCount];
  master.Load(i, w);
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    w[k] = Step(s, decay, Widen(g.at[k]), w[k], m.at[k], v.at[k]);
  }
  master.Store(i, w);
  m.Store(moment1 + i);
  v.Store(moment2 + i);
}

// Weights are float32, or bfloat16 with `low`.
template <bool kSplit, typename Gradient>
__global__ void AdamWKernel(const AdamWScalars s, float decay, void* weights, int16_t* low,
                            const Gradient* gradient, float* moment1, float* moment2,
                            int64_t elements) {
  const auto step = [&](auto count, int64_t i) {
    constexpr int kCount = decltype(count)::value;
    if constexpr (kSplit) {
      const SplitMaster<kCount> master{static_cast<uint16_t*>(weights), low};
      StepElements<kCount>(s, decay, master, i, gradient, moment1, moment2);
    } else {
      const Float32Master<kCount> master{static_cast<float*>(weights)};
      StepElements<kCount>(s, decay, master, i, gradient, moment1, moment2);
    }
  };
  const int64_t begin = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * N;
  if (begin + N <= elements) return step(std::integral_constant<int, N>(), begin);
  for (int64_t i = begin; i < elements; ++i) step(std::integral_constant<int, 1>(), i);
}

void RoundGradient(const RoundGradientArgs& args, LaneContext& context) {
  const NvtxRange range("round_gradient");
  int64_t chunks_before = 0;
  for (const UnitParameter& p : *args.parameters) {
    if (p.elements == 0) continue;
    const int64_t chunks = CeilDiv(p.elements, kNormChunk);
    float* from = args.accumulator + p.element_offset;
    double* sums = args.partial_sums == nullptr ? nullptr : args.partial_sums + chunks_before;
    const auto launch = [&](auto store, auto* to) {
      RoundKernel<decltype(store)>
          <<<Blocks(chunks, 1), kThreads, 0, Cuda(context).stream()>>>(from, to, p.elements, sums);
    };
    if (args.in_place && args.dtype == DType::kBF16) {
      launch(StoreRounded(), from);
    } else if (args.dtype == DType::kBF16) {
      launch(StoreShort(), static_cast<uint16_t*>(args.stored) + p.element_offset);
    } else {
      launch(StoreFloat(),
             args.in_place ? from : static_cast<float*>(args.stored) + p.element_offset);
    }
    chunks_before += chunks;
  }
  CheckLaunch("round_gradient");
}

template <typename Stored>
void WidenAll(const WidenGradientArgs& args, LaneContext& context) {
  for (const UnitParameter& p : *args.parameters) {
    if (p.elements == 0) continue;
    WidenKernel<Stored>
        <<<Blocks(p.elements, int64_t{kThreads} * N), kThreads, 0, Cuda(context).stream()>>>(
            static_cast<const Stored*>(args.stored) + p.element_offset,
            args.accumulator + p.element_offset, p.elements, args.add);
  }
}

void WidenGradient(const WidenGradientArgs& args, LaneContext& context) {
  const NvtxRange range("widen_gradient");
  if (args.dtype == DType::kBF16) {
    WidenAll<uint16_t>(args, context);
  } else {
    WidenAll<float>(args, context);
  }
  CheckLaunch("widen_gradient");
}

template <typename Gradient>
void AdamWAll(const AdamWArgs& args, LaneContext& context) {
  for (const UnitParameter& p : *args.parameters) {
    if (p.elements == 0) continue;
    const int64_t at = p.element_offset;
    const bool split = p.dtype != DType::kF32;
    const auto kernel = split ? AdamWKernel<true, Gradient> : AdamWKernel<false, Gradient>;
    kernel<<<Blocks(p.elements, int64_t{kThreads} * N), kThreads, 0, Cuda(context).stream()>>>(
        args.scalars, p.decays ? args.scalars.decay : 1.0f, args.weights + p.byte_offset,
        split ? args.master_low + at : nullptr, static_cast<const Gradient*>(args.gradient) + at,
        args.moment1 + at, args.moment2 + at, p.elements);
  }
}

void AdamW(const AdamWArgs& args, LaneContext& context) {
  const NvtxRange range("adamw");
  if (args.gradient_dtype == DType::kBF16) {
    AdamWAll<uint16_t>(args, context);
  } else {
    AdamWAll<float>(args, context);
  }
  CheckLaunch("adamw");
}

}  // namespace

const UnitKernels& DeviceKernels() {
  static constexpr UnitKernels kKernels = {RoundGradient, WidenGradient, AdamW};
  return kKernels;
}

}  // namespace lazytrain::cuda
