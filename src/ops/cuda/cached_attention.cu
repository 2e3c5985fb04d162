// Attention of a few new rows over a cache: a block a row and query head, keys in chunks with a
// running maximum and sum.
#include <algorithm>

#include "ops/cached_attention.h"
#include "ops/cuda/attention_kernels.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda/vectors.cuh"

namespace lazytrain::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kKeys = 128;  // of a chunk

struct CacheShape {
  int q_heads;
  int kv_heads;
  int head_dim;
  float scale;
  int64_t window;  // 0: none
  int64_t cached;
  float slopes[kMaxBiasedHeads];  // zeros where there are no linear biases
};

// Rows of keys and values behind those that are there.
template <typename T>
__global__ void AppendKernel(const CacheShape shape, const T* qkv, T* cache) {
  const int cols = 2 * shape.kv_heads * shape.head_dim;
  const int64_t skip = int64_t{shape.q_heads} * shape.head_dim;
  const T* from = qkv + blockIdx.x * (skip + cols) + skip;
  T* to = cache + (shape.cached + blockIdx.x) * cols;
  for (int i = static_cast<int>(threadIdx.x); i < cols; i += kThreads) to[i] = from[i];
}

template <typename T>
__global__ void AttendKernel(const __grid_constant__ CacheShape shape, const T* qkv, const T* cache,
                             T* attn) {
  __shared__ float query[kMaxHeadDim];
  __shared__ float scores[kKeys];
  const int dim = shape.head_dim;
  const int thread = static_cast<int>(threadIdx.x);
  const int head = static_cast<int>(blockIdx.y);
  const int64_t row = blockIdx.x;
  const int cache_cols = 2 * shape.kv_heads * dim;
  const int kv_head = head / (shape.q_heads / shape.kv_heads);
  const T* keys = cache + kv_head * dim;
  const T* values = cache + (shape.kv_heads + kv_head) * dim;
  const int64_t qkv_cols = int64_t{shape.q_heads} * dim + cache_cols;
  if (thread < dim) query[thread] = AsFloat(qkv[row * qkv_cols + head * dim + thread]);
  __syncthreads();

  const int64_t end = shape.cached + row + 1;
  const int64_t first = shape.window > 0 && end > shape.window ? end - shape.window : 0;
  const float slope = head < kMaxBiasedHeads ? shape.slopes[head] : 0.0f;
  float maximum = -INFINITY;
  float denominator = 0.0f;
  float sum = 0.0f;  // of this thread's channel
  for (int64_t begin = first; begin < end; begin += kKeys) {
    const int count = static_cast<int>(end - begin < kKeys ? end - begin : kKeys);
    // A warp a key.
    for (int key = thread / 32; key < count; key += kWarps) {
      float dot = 0.0f;
      for (int i = thread % 32; i < dim; i += 32) {
        dot += query[i] * AsFloat(keys[(begin + key) * cache_cols + i]);
      }
      dot = ReduceLanes(dot, 32, Sum());
      if (thread % 32 == 0) {
        scores[key] = dot * shape.scale + slope * static_cast<float>(begin + key + 1 - end);
      }
    }
    __syncthreads();
    float chunk_maximum = maximum;
    for (int key = 0; key < count; ++key) chunk_maximum = fmaxf(chunk_maximum, scores[key]);
    const float shrink = expf(maximum - chunk_maximum);
    maximum = chunk_maximum;
    denominator *= shrink;
    sum *= shrink;
    for (int key = 0; key < count; ++key) {
      const float p = expf(scores[key] - maximum);
      denominator += p;
      if (thread < dim) sum += p * AsFloat(values[(begin + key) * cache_cols + thread]);
    }
    __syncthreads();
  }
  if (thread < dim) {
    attn[(row * shape.q_heads + head) * dim + thread] = Rounded<T>(sum / denominator);
  }
}

}  // namespace

void CachedAttentionForward(const Op& base, const OpArgs& args, LaneContext& context) {
  const Attention& op = static_cast<const CachedAttention&>(base).attention;
  if (op.head_dim > kMaxHeadDim) {
    RefuseSize("cached attention with head_dim", op.head_dim, kMaxHeadDim);
  }
  const auto biased = static_cast<int64_t>(op.slopes.size());
  if (biased > kMaxBiasedHeads) {
    RefuseSize("cached attention with linear biases of heads", biased, kMaxBiasedHeads);
  }
  const TensorView& qkv = args.inputs[0];
  if (qkv.rows == 0) return;
  CacheShape shape = {static_cast<int>(op.q_heads),
                      static_cast<int>(op.kv_heads),
                      static_cast<int>(op.head_dim),
                      op.scale,
                      op.window,
                      args.batch.rows.cached,
                      {}};
  std::copy(op.slopes.begin(), op.slopes.end(), shape.slopes);
  cudaStream_t stream = Cuda(context).stream();
  WithElementType(qkv.dtype, [&](auto element) {
    using T = decltype(element);
    T* cache = args.inputs[1].as<T>();
    AppendKernel<T><<<Blocks(qkv.rows, 1), kThreads, 0, stream>>>(shape, qkv.as<const T>(), cache);
    const dim3 blocks(Blocks(qkv.rows, 1), static_cast<unsigned>(op.q_heads));
    AttendKernel<T>
        <<<blocks, kThreads, 0, stream>>>(shape, qkv.as<const T>(), cache, args.outputs[0].as<T>());
  });
  CheckLaunch("cached_attention");
}

}  // namespace lazytrain::cuda
