// Attention in float32 on the arithmetic units: tiles of queries and keys in shared memory, a
// running maximum and sum (Milakov and Gimelshein 2018; Dao et al. 2022). Backward makes the
// gradients of keys and values by one kernel and those of queries by another, so that every sum has
// one owner.
#include "ops/cuda/attention_shape.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/cuda/vectors.cuh"

namespace lazytrain::cuda {
namespace {

constexpr int kTile = 32;    // queries, and keys
constexpr int kSharers = 8;  // neighbouring threads that share a row of a tile
constexpr int kThreads = kTile * kSharers;
constexpr int kScores = kTile / kSharers;  // of a thread

using Tiles = DocumentTiles<kTile>;

// kTile rows of `dim` floats; a row is one float longer, so that a column lies in different banks.
struct TileRows {
  float* data;
  int stride;

  __device__ float* Row(int row) const { return data + row * stride; }

  // Rows of a head from token `first` on; zeros from `end` on.
  template <typename T>
  __device__ void Load(const T* from, int64_t token_stride, int first, int end, int dim) const {
    for (int i = static_cast<int>(threadIdx.x); i < kTile * dim; i += kThreads) {
      const int row = i / dim;
      const int col = i - row * dim;
      const int token = first + row;
      Row(row)[col] = token < end ? AsFloat(from[token * token_stride + col]) : 0.0f;
    }
  }
};

__device__ inline float Dot(const float* a, const float* b, int dim) {
  float sum = 0.0f;
  for (int i = 0; i < dim; ++i) sum += a[i] * b[i];
  return sum;
}

// A score before it is scaled, with the linear bias of a key `distance` tokens further.
__device__ inline float Biased(float score, float ratio, int distance) {
  if (ratio != 0.0f) score += ratio * static_cast<float>(distance);
  return score;
}

// The tiles of shared memory, one behind the other.
__device__ inline TileRows SharedTile(float* shared, int index, int dim) {
  return {shared + index * kTile * (dim + 1), dim + 1};
}

// sums[i] += the product of `weights` and column (sharer + i kSharers) of `rows`.
template <int kColumns>
__device__ void AddProduct(const float* weights, const TileRows& rows, int sharer, int dim,
                           float (&sums)[kColumns]) {
  for (int j = 0; j < kTile; ++j) {
    const float weight = weights[j];
    const float* row = rows.Row(j);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const int col = sharer + i * kSharers;
      if (col < dim) sums[i] += weight * row[col];
    }
  }
}

template <typename T, int kColumns>
__device__ void StoreColumns(const float (&sums)[kColumns], float factor, int sharer, int dim,
                             bool accumulate, T* to) {
#pragma unroll
  for (int i = 0; i < kColumns; ++i) {
    const int col = sharer + i * kSharers;
    const float value[1] = {sums[i] * factor};
    if (col < dim) PutVec<T, 1>(to + col, value, accumulate);
  }
}

// A block a tile of queries (x) and a query head (y); kColumns channels a thread.
template <typename T, int kColumns>
__global__ void __launch_bounds__(kThreads)
    ForwardKernel(const __grid_constant__ AttentionShape shape, const T* qkv, T* attn, float* lse) {
  extern __shared__ float shared[];
  const Tiles tiles{shape.documents};
  const auto tile = tiles.At(static_cast<int>(gridDim.x - 1 - blockIdx.x));
  if (tile.begin >= tile.document_end) return;
  const int head = static_cast<int>(blockIdx.y);
  const int kv_head = head / shape.group();
  const int dim = shape.dim;
  const int row = static_cast<int>(threadIdx.x) / kSharers;
  const int sharer = static_cast<int>(threadIdx.x) % kSharers;
  const int query = tile.begin + row;
  const TileRows queries = SharedTile(shared, 0, dim);
  const TileRows keys = SharedTile(shared, 1, dim);
  const TileRows values = SharedTile(shared, 2, dim);
  float* weights = shared + 3 * kTile * (dim + 1) + row * (kTile + 1);

  queries.Load(qkv + head * dim, shape.qkv_stride(), tile.begin, tile.document_end, dim);
  float sums[kColumns] = {};
  float max = -INFINITY;
  float denominator = 0.0f;
  const float ratio = shape.BiasRatio(head);
  const int first = shape.FirstKey(tile.document_begin, tile.begin);
  for (int key0 = tile.document_begin + (first - tile.document_begin) / kTile * kTile;
       key0 < min(tile.begin + kTile, tile.document_end); key0 += kTile) {
    __syncthreads();
    keys.Load(qkv + shape.KeyHead(kv_head) * dim, shape.qkv_stride(), key0, tile.document_end, dim);
    values.Load(qkv + shape.ValueHead(kv_head) * dim, shape.qkv_stride(), key0, tile.document_end,
                dim);
    __syncthreads();
    float scores[kScores];
    float tile_max = -INFINITY;
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      const int col = sharer + i * kSharers;
      scores[i] = -INFINITY;
      if (!shape.Sees(query, key0 + col)) continue;
      scores[i] = Biased(Dot(queries.Row(row), keys.Row(col), dim), ratio, key0 + col - query) *
                  shape.scale;
      tile_max = fmaxf(tile_max, scores[i]);
    }
    const float new_max = fmaxf(max, ReduceLanes(tile_max, kSharers, Max()));
    // A row that sees no key of this tile, nor of those before.
    const float base = new_max == -INFINITY ? 0.0f : new_max;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      const float weight = expf(scores[i] - base);
      weights[sharer + i * kSharers] = weight;
      sum += weight;
    }
    const float shrink = expf(max - base);
    denominator = denominator * shrink + ReduceLanes(sum, kSharers, Sum());
#pragma unroll
    for (int i = 0; i < kColumns; ++i) sums[i] *= shrink;
    max = new_max;
    __syncwarp();  // the row's sharers are of one warp
    AddProduct(weights, values, sharer, dim, sums);
  }
  if (query >= tile.document_end) return;
  StoreColumns(sums, 1.0f / denominator, sharer, dim, false,
               attn + query * shape.attn_stride() + head * dim);
  if (sharer == 0) lse[int64_t{query} * shape.q_heads + head] = max + logf(denominator);
}

// Probability and gradient of the score of a query and a key.
struct ScorePair {
  float probability;
  float d_score;
};

__device__ inline ScorePair BackwardScore(const AttentionShape& shape, float score, float d_weight,
                                          float lse, float delta) {
  const float p = expf(score * shape.scale - lse);
  return {p, p * (d_weight - delta) * shape.scale};
}

// A block a tile of queries (x) and a query head (y).
template <typename T, int kColumns>
__global__ void __launch_bounds__(kThreads)
    QueryGradientKernel(const __grid_constant__ AttentionShape shape, const T* qkv, const T* d_attn,
                        const float* lse, const float* delta, bool accumulate, T* d_qkv) {
  extern __shared__ float shared[];
  const Tiles tiles{shape.documents};
  const auto tile = tiles.At(static_cast<int>(gridDim.x - 1 - blockIdx.x));
  if (tile.begin >= tile.document_end) return;
  const int head = static_cast<int>(blockIdx.y);
  const int kv_head = head / shape.group();
  const int dim = shape.dim;
  const int row = static_cast<int>(threadIdx.x) / kSharers;
  const int sharer = static_cast<int>(threadIdx.x) % kSharers;
  const int query = tile.begin + row;
  const bool is_there = query < tile.document_end;
  const TileRows queries = SharedTile(shared, 0, dim);
  const TileRows gradients = SharedTile(shared, 1, dim);
  const TileRows keys = SharedTile(shared, 2, dim);
  const TileRows values = SharedTile(shared, 3, dim);
  float* d_scores = shared + 4 * kTile * (dim + 1) + row * (kTile + 1);

  queries.Load(qkv + head * dim, shape.qkv_stride(), tile.begin, tile.document_end, dim);
  gradients.Load(d_attn + head * dim, shape.attn_stride(), tile.begin, tile.document_end, dim);
  const int64_t statistic = int64_t{query} * shape.q_heads + head;
  const float row_lse = is_there ? lse[statistic] : 0.0f;
  const float row_delta = is_there ? delta[statistic] : 0.0f;
  const float ratio = shape.BiasRatio(head);
  float sums[kColumns] = {};
  const int first = shape.FirstKey(tile.document_begin, tile.begin);
  for (int key0 = tile.document_begin + (first - tile.document_begin) / kTile * kTile;
       key0 < min(tile.begin + kTile, tile.document_end); key0 += kTile) {
    __syncthreads();
    keys.Load(qkv + shape.KeyHead(kv_head) * dim, shape.qkv_stride(), key0, tile.document_end, dim);
    values.Load(qkv + shape.ValueHead(kv_head) * dim, shape.qkv_stride(), key0, tile.document_end,
                dim);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kScores; ++i) {
      const int col = sharer + i * kSharers;
      float d_score = 0.0f;
      if (is_there && shape.Sees(query, key0 + col)) {
        const float score =
            Biased(Dot(queries.Row(row), keys.Row(col), dim), ratio, key0 + col - query);
        const float d_weight = Dot(gradients.Row(row), values.Row(col), dim);
        d_score = BackwardScore(shape, score, d_weight, row_lse, row_delta).d_score;
      }
      d_scores[col] = d_score;
    }
    __syncwarp();
    AddProduct(d_scores, keys, sharer, dim, sums);
  }
  if (is_there) {
    StoreColumns(sums, 1.0f, sharer, dim, accumulate,
                 d_qkv + query * shape.qkv_stride() + head * dim);
  }
}

// A block a tile of keys (x) and a key head (y): its query heads in order, their tiles in order.
template <typename T, int kColumns>
__global__ void __launch_bounds__(kThreads)
    KeyValueGradientKernel(const __grid_constant__ AttentionShape shape, const T* qkv,
                           const T* d_attn, const float* lse, const float* delta, bool accumulate,
                           T* d_qkv) {
  extern __shared__ float shared[];
  const Tiles tiles{shape.documents};
  const auto tile = tiles.At(static_cast<int>(blockIdx.x));
  if (tile.begin >= tile.document_end) return;
  const int kv_head = static_cast<int>(blockIdx.y);
  const int dim = shape.dim;
  const int row = static_cast<int>(threadIdx.x) / kSharers;
  const int sharer = static_cast<int>(threadIdx.x) % kSharers;
  const int key = tile.begin + row;
  const TileRows queries = SharedTile(shared, 0, dim);
  const TileRows gradients = SharedTile(shared, 1, dim);
  const TileRows keys = SharedTile(shared, 2, dim);
  const TileRows values = SharedTile(shared, 3, dim);
  float* weights = shared + 4 * kTile * (dim + 1) + row * (kTile + 1);
  float* d_scores = weights + kTile * (kTile + 1);

  keys.Load(qkv + shape.KeyHead(kv_head) * dim, shape.qkv_stride(), tile.begin, tile.document_end,
            dim);
  values.Load(qkv + shape.ValueHead(kv_head) * dim, shape.qkv_stride(), tile.begin,
              tile.document_end, dim);
  float d_key[kColumns] = {};
  float d_value[kColumns] = {};
  const int end = shape.EndQuery(tile.document_end, tile.begin + kTile - 1);
  for (int member = 0; member < shape.group(); ++member) {
    const int head = kv_head * shape.group() + member;
    const float ratio = shape.BiasRatio(head);
    for (int query0 = tile.begin; query0 < end; query0 += kTile) {
      __syncthreads();
      queries.Load(qkv + head * dim, shape.qkv_stride(), query0, tile.document_end, dim);
      gradients.Load(d_attn + head * dim, shape.attn_stride(), query0, tile.document_end, dim);
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kScores; ++i) {
        const int col = sharer + i * kSharers;
        const int query = query0 + col;
        ScorePair pair = {0.0f, 0.0f};
        if (query < tile.document_end && shape.Sees(query, key)) {
          const float score = Biased(Dot(queries.Row(col), keys.Row(row), dim), ratio, key - query);
          const float d_weight = Dot(gradients.Row(col), values.Row(row), dim);
          const int64_t statistic = int64_t{query} * shape.q_heads + head;
          pair = BackwardScore(shape, score, d_weight, lse[statistic], delta[statistic]);
        }
        weights[col] = pair.probability;
        d_scores[col] = pair.d_score;
      }
      __syncwarp();
      AddProduct(weights, gradients, sharer, dim, d_value);
      AddProduct(d_scores, queries, sharer, dim, d_key);
    }
  }
  if (key >= tile.document_end) return;
  T* target = d_qkv + key * shape.qkv_stride();
  StoreColumns(d_key, 1.0f, sharer, dim, accumulate, target + shape.KeyHead(kv_head) * dim);
  StoreColumns(d_value, 1.0f, sharer, dim, accumulate, target + shape.ValueHead(kv_head) * dim);
}

// Bytes of `tiles` tiles of rows and `squares` tiles of scores.
size_t SharedBytes(int tiles, int squares, int64_t dim) {
  return sizeof(float) * (static_cast<size_t>(tiles * kTile * (dim + 1)) +
                          static_cast<size_t>(squares * kTile * (kTile + 1)));
}

// Calls launch(element, columns): the channels of a thread.
template <typename Launch>
void WithColumns(const AttentionCall& call, const Launch& launch) {
  WithElementType(call.qkv.dtype, [&](auto element) {
    if (call.op.head_dim <= 64)
      return launch(element, std::integral_constant<int, 64 / kSharers>());
    if (call.op.head_dim <= 128) {
      return launch(element, std::integral_constant<int, 128 / kSharers>());
    }
    launch(element, std::integral_constant<int, kMaxHeadDim / kSharers>());
  });
}

}  // namespace

void AttentionForwardFloat(CudaLaneContext& context, const AttentionCall& call) {
  WithColumns(call, [&](auto element, auto columns) {
    using T = decltype(element);
    const auto kernel = ForwardKernel<T, decltype(columns)::value>;
    const size_t shared = SharedBytes(3, 1, call.op.head_dim);
    AllowShared(context, kernel, static_cast<int>(shared), "attention");
    const dim3 grid(Blocks(TileNumbers<kTile>(call.batch), 1), Count32(call.op.q_heads));
    kernel<<<grid, kThreads, shared, context.stream()>>>(ShapeOf(call), call.qkv.as<const T>(),
                                                         call.attn.as<T>(), call.lse.as<float>());
  });
  CheckLaunch("attention");
}

void AttentionBackwardFloat(CudaLaneContext& context, const AttentionCall& call) {
  WithColumns(call, [&](auto element, auto columns) {
    using T = decltype(element);
    const auto run = [&](auto kernel, int64_t heads, int squares) {
      const size_t shared = SharedBytes(4, squares, call.op.head_dim);
      AllowShared(context, kernel, static_cast<int>(shared), "attention");
      const dim3 grid(Blocks(TileNumbers<kTile>(call.batch), 1), Count32(heads));
      kernel<<<grid, kThreads, shared, context.stream()>>>(
          ShapeOf(call), call.qkv.as<const T>(), call.d_attn.as<const T>(),
          call.lse.as<const float>(), call.delta, call.accumulate, call.d_qkv.as<T>());
    };
    run(KeyValueGradientKernel<T, decltype(columns)::value>, call.op.kv_heads, 2);
    run(QueryGradientKernel<T, decltype(columns)::value>, call.op.q_heads, 1);
  });
  CheckLaunch("attention backward");
}

}  // namespace lazytrain::cuda
