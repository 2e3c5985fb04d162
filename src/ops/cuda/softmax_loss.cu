#include "ops/cuda/device_faults.cuh"
#include "ops/cuda/launch.h"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda/softmax_loss.h"
#include "ops/cuda/vectors.cuh"

namespace lazytrain::cuda {
namespace {

constexpr int kThreads = 1024;

// A running maximum and the sum of exponentials relative to it (Milakov and Gimelshein 2018).
struct Running {
  float max = -INFINITY;
  float sum = 0.0f;

  template <int N>
  __device__ void Add(const float (&values)[N]) {
    float largest = max;
#pragma unroll
    for (int k = 0; k < N; ++k) largest = fmaxf(largest, values[k]);
    if (largest == -INFINITY) return;
    sum *= expf(max - largest);
#pragma unroll
    for (int k = 0; k < N; ++k) sum += expf(values[k] - largest);
    max = largest;
  }
};

template <int N>
__device__ Running ReadRow(const float* logits, int64_t cols) {
  Running running;
#pragma unroll 2
  for (int64_t i = int64_t{threadIdx.x} * N; i < cols; i += int64_t{kThreads} * N) {
    const auto v = Vec<float, N>::Load(logits + i);
    float values[N];
#pragma unroll
    for (int k = 0; k < N; ++k) values[k] = v.at[k];
    running.Add(values);
  }
  return running;
}

template <typename G, int N>
__device__ void WriteGradient(const float* logits, int64_t cols, int32_t target, float max,
                              float inverse, float weight, G* gradient) {
#pragma unroll 2
  for (int64_t i = int64_t{threadIdx.x} * N; i < cols; i += int64_t{kThreads} * N) {
    const auto v = Vec<float, N>::Load(logits + i);
    float values[N];
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const float probability = expf(v.at[k] - max) * inverse;
      values[k] = (i + k == target ? probability - 1.0f : probability) * weight;
    }
    PutVec<G, N>(gradient + i, values, false);
  }
}

template <typename G, int N>
__device__ void WriteZeros(G* gradient, int64_t cols) {
  const float zeros[N] = {};
  for (int64_t i = int64_t{threadIdx.x} * N; i < cols; i += int64_t{kThreads} * N) {
    PutVec<G, N>(gradient + i, zeros, false);
  }
}

// A block a row.
template <typename G, int N, bool kGradient>
__global__ void __launch_bounds__(kThreads)
    SoftmaxLossKernel(const float* all_logits, int64_t cols, const int32_t* targets,
                      const float* weights, DeviceFault* fault, float* losses, G* all_gradients) {
  __shared__ float maxima[32];
  __shared__ double sums[32];
  const int64_t row = blockIdx.x;
  const float* logits = all_logits + row * cols;
  G* gradient = all_gradients + row * cols;
  const int32_t target = targets[row];
  if (target >= cols) Report(Fault::kTargetOutsideVocabulary, target, cols, fault);
  if (target < 0 || target >= cols) {
    if (threadIdx.x == 0 && losses != nullptr) losses[row] = 0.0f;
    if constexpr (kGradient) WriteZeros<G, N>(gradient, cols);
    return;
  }
  const float weight = weights[row];
  const float target_logit = logits[target];
  const Running running = ReadRow<N>(logits, cols);
  const float max = ReduceBlock(running.max, maxima, Max());
  // Short sums in float32, their sum in float64.
  const double own =
      running.sum == 0.0f ? 0.0 : double{running.sum} * exp(double{running.max} - max);
  const double sum = ReduceBlock(own, sums, Sum());
  if (threadIdx.x == 0 && losses != nullptr) {
    losses[row] = static_cast<float>(double{weight} * (log(sum) - (double{target_logit} - max)));
  }
  if constexpr (kGradient) {
    WriteGradient<G, N>(logits, cols, target, max, static_cast<float>(1.0 / sum), weight, gradient);
  }
}

template <typename G, bool kGradient>
void Launch(CudaLaneContext& context, const TensorView& logits, const int32_t* targets,
            const float* weights, float* losses, const TensorView& gradient) {
  const bool aligned = IsAligned(logits.data) && IsAligned(gradient.data);
  WithWidth<float>(logits.cols, aligned, [&](auto width) {
    SoftmaxLossKernel<G, decltype(width)::value, kGradient>
        <<<Blocks(logits.rows, 1), kThreads, 0, context.stream()>>>(
            logits.as<const float>(), logits.cols, targets, weights, context.fault(), losses,
            gradient.as<G>());
  });
}

}  // namespace

void SoftmaxLoss(CudaLaneContext& context, const TensorView& logits, const int32_t* targets,
                 const float* weights, float* losses, const TensorView& gradient) {
  if (logits.rows == 0) return;
  if (!gradient.present()) {
    Launch<float, false>(context, logits, targets, weights, losses, gradient);
  } else {
    WithElementType(gradient.dtype, [&](auto element) {
      Launch<decltype(element), true>(context, logits, targets, weights, losses, gradient);
    });
  }
  CheckLaunch("lm_head_loss");
}

}  // namespace lazytrain::cuda
