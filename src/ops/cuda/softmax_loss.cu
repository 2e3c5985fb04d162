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

// Stretch by stretch, since the gradient lies over the logits: what is written lies at or before
// what has been read, so a barrier between reading and writing a stretch keeps them apart.
template <typename G, int N>
__device__ void WriteGradient(float* logits, int64_t cols, int32_t target, float max, float inverse,
                              float weight) {
  auto* gradient = reinterpret_cast<G*>(logits);
  for (int64_t begin = 0; begin < cols; begin += int64_t{kThreads} * N) {
    const int64_t i = begin + int64_t{threadIdx.x} * N;
    float values[N];
    if (i < cols) {
      const auto v = Vec<float, N>::Load(logits + i);
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const float probability = expf(v.at[k] - max) * inverse;
        values[k] = (i + k == target ? probability - 1.0f : probability) * weight;
      }
    }
    if constexpr (sizeof(G) < sizeof(float)) __syncthreads();
    if (i < cols) PutVec<G, N>(gradient + i, values, false);
  }
}

template <typename G, int N>
__device__ void WriteZeros(float* logits, int64_t cols) {
  const float zeros[N] = {};
  for (int64_t i = int64_t{threadIdx.x} * N; i < cols; i += int64_t{kThreads} * N) {
    PutVec<G, N>(reinterpret_cast<G*>(logits) + i, zeros, false);
  }
}

// A block a row.
template <typename G, int N, bool kGradient>
__global__ void __launch_bounds__(kThreads)
    SoftmaxLossKernel(float* all_logits, int64_t cols, const int32_t* targets, const float* weights,
                      DeviceFault* fault, float* losses) {
  __shared__ float maxima[32];
  __shared__ double sums[32];
  const int64_t row = blockIdx.x;
  float* logits = all_logits + row * cols;
  const int32_t target = targets[row];
  if (target >= cols) Report(Fault::kTargetOutsideVocabulary, target, cols, fault);
  if (target < 0 || target >= cols) {
    if (threadIdx.x == 0 && losses != nullptr) losses[row] = 0.0f;
    if constexpr (kGradient) WriteZeros<G, N>(logits, cols);
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
    WriteGradient<G, N>(logits, cols, target, max, static_cast<float>(1.0 / sum), weight);
  }
}

template <typename G, bool kGradient>
void Launch(CudaLaneContext& context, const TensorView& logits, const int32_t* targets,
            const float* weights, float* losses) {
  WithWidth<float>(logits.cols, IsAligned(logits.data), [&](auto width) {
    SoftmaxLossKernel<G, decltype(width)::value, kGradient>
        <<<Blocks(logits.rows, 1), kThreads, 0, context.stream()>>>(
            logits.as<float>(), logits.cols, targets, weights, context.fault(), losses);
  });
}

}  // namespace

void SoftmaxLoss(CudaLaneContext& context, const TensorView& logits, const int32_t* targets,
                 const float* weights, float* losses, bool gradient, DType gradient_dtype) {
  if (logits.rows == 0) return;
  if (!gradient) {
    Launch<float, false>(context, logits, targets, weights, losses);
  } else {
    WithElementType(gradient_dtype, [&](auto element) {
      Launch<decltype(element), true>(context, logits, targets, weights, losses);
    });
  }
  CheckLaunch("lm_head_loss");
}

}  // namespace lazytrain::cuda
