// Softmax of score tiles that lie over a warpgroup's registers (attention_tiles.cuh).
#pragma once

#include "ops/cuda/attention_shape.cuh"
#include "ops/cuda/attention_tiles.cuh"
#include "ops/cuda/reduce.cuh"

namespace lazytrain::cuda {

inline constexpr float kLog2E = 1.44269504088896341f;

// Statistics of a lane's two rows.
struct SoftmaxRows {
  float max[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0.0f, 0.0f};  // of the lane's own columns
};

// `masked` takes the place of scores that are none. A row is a query, `query` that of the lane's
// upper row; `key0` the first column's key.
template <int kBlocks>
__device__ inline void MaskTile(const AttentionShape& shape, int query, int key0, float masked,
                                float (&scores)[kBlocks][4]) {
  const TokenSpan seen[2] = {shape.KeysOf(query), shape.KeysOf(query + 8)};
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = key0 + n * 8 + lane % 4 * 2 + i % 2;
      scores[n][i] = seen[i / 2].Has(key) ? scores[n][i] : masked;
    }
  }
}
// The same where a row is a key and a column a query, before the document's end.
template <int kBlocks>
__device__ inline void MaskTransposed(const AttentionShape& shape, int key, int query0, int end,
                                      float masked, float (&scores)[kBlocks][4]) {
  const TokenSpan seeing[2] = {shape.QueriesOf(key, end), shape.QueriesOf(key + 8, end)};
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int query = query0 + n * 8 + lane % 4 * 2 + i % 2;
      scores[n][i] = seeing[i / 2].Has(query) ? scores[n][i] : masked;
    }
  }
}

// Adds linear biases; `ratio` is a head's slope over the scale by which scores will be multiplied.
template <int kBlocks>
__device__ inline void AddBiases(float ratio, int query, int key0, float (&scores)[kBlocks][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = key0 + n * 8 + lane % 4 * 2 + i % 2;
      scores[n][i] += ratio * static_cast<float>(key - query - i / 2 * 8);
    }
  }
}
// The same where a row is a key and a column a query.
template <int kBlocks>
__device__ inline void AddBiasesTransposed(float ratio, int key, int query0,
                                           float (&scores)[kBlocks][4]) {
  AddBiases(-ratio, key, query0, scores);
}

// Scores become probabilities relative to the new maxima. `scale`: from scores to powers of two;
// `shrink`: what earlier sums are to be multiplied by.
template <int kBlocks>
__device__ inline void SoftmaxTile(float (&scores)[kBlocks][4], float scale, SoftmaxRows& rows,
                                   float (&shrink)[2]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float largest = rows.max[half];
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      largest = fmaxf(largest, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
    }
    largest = ReduceLanes(largest, 4, Max());
    // A row that sees no key of this tile, nor of those before.
    const float base = largest == -INFINITY ? 0.0f : largest * scale;
    shrink[half] = Exp2(rows.max[half] * scale - base);
    rows.max[half] = largest;
    float sum = 0.0f;
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i) {
        scores[n][i] = Exp2(scores[n][i] * scale - base);
        sum += scores[n][i];
      }
    }
    rows.sum[half] = rows.sum[half] * shrink[half] + sum;
  }
}

template <int kBlocks>
__device__ inline void ShrinkSums(const float (&shrink)[2], float (&sums)[kBlocks][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    // Maxima soon settle: then nothing follows them.
    if (!__any_sync(kAllLanes, shrink[half] != 1.0f)) continue;
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      sums[n][2 * half] *= shrink[half];
      sums[n][2 * half + 1] *= shrink[half];
    }
  }
}

// Writes a warp's rows of attention and their statistics; `query` is the lane's upper row.
template <int kBlocks>
__device__ inline void StoreAttention(const AttentionShape& shape, int head, int query, int end,
                                      const SoftmaxRows& rows, const float (&sums)[kBlocks][4],
                                      bf16* attn, float* lse) {
  float inverse[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = ReduceLanes(rows.sum[half], 4, Sum());
    inverse[half] = 1.0f / sum;
    const int row = query + half * 8;
    if (threadIdx.x % 4 == 0 && row < end) {
      lse[int64_t{row} * shape.q_heads + head] = rows.max[half] * shape.scale + logf(sum);
    }
  }
  const int first = query - static_cast<int>(threadIdx.x) % 32 / 4;
  StoreRows(sums, inverse[0], inverse[1], attn + head * shape.dim, shape.attn_stride(), first, end,
            shape.dim, false);
}

}  // namespace lazytrain::cuda
