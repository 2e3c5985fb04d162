// Backward attention on the tensor cores: one kernel for the gradients of keys and values, one for
// those of queries. Scores are made twice, and in return every sum has one owner and one order, and
// nothing but a float a row (delta) waits in memory.
#include "ops/cuda/attention_mma.cuh"
#include "ops/cuda/attention_shape.cuh"

namespace lazytrain::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kRows = 64;  // that a block owns: keys, or queries; a warp takes 16 of them
constexpr float kLog2E = 1.44269504088896341f;

struct BackwardArgs {
  AttentionShape shape;
  const bf16* qkv;
  const bf16* d_attn;
  const float* lse;
  const float* delta;
  bf16* d_qkv;
  bool accumulate;
};

// ---- Keys and values ----

// Queries that pass through at once: what registers leave room for beside the sums.
template <int kDim>
inline constexpr int kQueries = kDim <= 64 ? 64 : 32;

template <int kDim>
struct KeyValueShared {
  bf16 keys[kRows * kTileStride<kDim>];
  bf16 values[kRows * kTileStride<kDim>];
  bf16 queries[2][kQueries<kDim> * kTileStride<kDim>];
  bf16 d_attn[2][kQueries<kDim> * kTileStride<kDim>];
  float lse[2][kQueries<kDim>];
  float delta[2][kQueries<kDim>];
};

// The query tiles that a block of keys meets: those of each query head in turn.
struct QueryWalk {
  int begin;  // first query
  int tiles;  // a head
  int count;  // in all
};

// Transposed scores (a row a key) become probabilities, and d_weights their scores' gradients but
// for the factor `scale`.
template <int kBlocks>
__device__ inline void BackwardScores(const AttentionShape& shape, const float* lse,
                                      const float* delta, int key, int query0, int end, bool masked,
                                      float (&scores)[kBlocks][4], float (&d_weights)[kBlocks][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float scale = shape.scale * kLog2E;
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int col = n * 8 + lane % 4 * 2 + i % 2;
      float p = Exp2(scores[n][i] * scale - lse[col] * kLog2E);
      if (masked) {
        const int query = query0 + col;
        if (query >= end || !shape.Sees(query, key + i / 2 * 8)) p = 0.0f;
      }
      scores[n][i] = p;
      d_weights[n][i] = p * (d_weights[n][i] - delta[col]);
    }
  }
}

// Copies a tile of queries with everything that belongs to its rows.
template <int kDim>
__device__ inline void StartQueries(const BackwardArgs& args, KeyValueShared<kDim>& shared,
                                    int stage, int head, int query0, int end) {
  constexpr int kCount = kQueries<kDim>;
  const AttentionShape& shape = args.shape;
  StartTile<kDim, kCount, kThreads>(shared.queries[stage], args.qkv + head * shape.dim,
                                    shape.qkv_stride(), query0, end, shape.dim);
  StartTile<kDim, kCount, kThreads>(shared.d_attn[stage], args.d_attn + head * shape.dim,
                                    shape.attn_stride(), query0, end, shape.dim);
  CommitTiles();
  const int row = static_cast<int>(threadIdx.x);
  if (row >= kCount) return;
  const int64_t statistic = int64_t{query0 + row} * shape.q_heads + head;
  const bool is_there = query0 + row < end;
  shared.lse[stage][row] = is_there ? args.lse[statistic] : 0.0f;
  shared.delta[stage][row] = is_there ? args.delta[statistic] : 0.0f;
}

// A block a tile of keys (x) and a key head (y). With head dimensions beyond 128 registers hold one
// of the two sums, and the kernel runs for each.
template <int kDim, bool kKeyGradient, bool kValueGradient>
__global__ void __launch_bounds__(kThreads) KeyValueKernel(const BackwardArgs args) {
  constexpr int kCount = kQueries<kDim>;
  extern __shared__ __align__(16) unsigned char memory[];
  auto& shared = *reinterpret_cast<KeyValueShared<kDim>*>(memory);
  const AttentionShape& shape = args.shape;
  const DocumentTiles<kRows> all_tiles{shape.documents};
  const auto tile = all_tiles.At(static_cast<int>(blockIdx.x));
  if (tile.begin >= tile.document_end) return;
  const int kv_head = static_cast<int>(blockIdx.y);
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  const int key = tile.begin + warp_row + static_cast<int>(threadIdx.x) % 32 / 4;
  const int last_query = shape.EndQuery(tile.document_end, tile.begin + kRows - 1);
  QueryWalk walk;
  walk.begin = tile.begin;
  walk.tiles = (last_query - tile.begin + kCount - 1) / kCount;
  walk.count = walk.tiles * shape.group();
  const auto start = [&](int index, int stage) {
    const int head = kv_head * shape.group() + index / walk.tiles;
    StartQueries<kDim>(args, shared, stage, head, walk.begin + index % walk.tiles * kCount,
                       tile.document_end);
  };

  StartTile<kDim, kRows, kThreads>(shared.keys, args.qkv + shape.KeyHead(kv_head) * shape.dim,
                                   shape.qkv_stride(), tile.begin, tile.document_end, shape.dim);
  StartTile<kDim, kRows, kThreads>(shared.values, args.qkv + shape.ValueHead(kv_head) * shape.dim,
                                   shape.qkv_stride(), tile.begin, tile.document_end, shape.dim);
  start(0, 0);
  float d_key[kDim / 8][4] = {};
  float d_value[kDim / 8][4] = {};
  for (int index = 0; index < walk.count; ++index) {
    const int stage = index % 2;
    AwaitTiles<0>();
    __syncthreads();  // the tile is there, and the one before is no longer read
    if (index + 1 < walk.count) start(index + 1, stage ^ 1);
    const int query0 = walk.begin + index % walk.tiles * kCount;
    float scores[kCount / 8][4];
    float d_weights[kCount / 8][4] = {};
    MultiplyTransposed<kDim>(scores, shared.keys, warp_row, shared.queries[stage]);
    if constexpr (kKeyGradient) {
      MultiplyTransposed<kDim>(d_weights, shared.values, warp_row, shared.d_attn[stage]);
    }
    const bool masked = query0 < tile.begin + kRows || query0 + kCount > tile.document_end ||
                        (shape.window > 0 && query0 + kCount - 1 - shape.window >= tile.begin);
    BackwardScores(shape, shared.lse[stage], shared.delta[stage], key, query0, tile.document_end,
                   masked, scores, d_weights);
    if constexpr (kValueGradient) AddProduct<kDim>(d_value, scores, shared.d_attn[stage]);
    if constexpr (kKeyGradient) AddProduct<kDim>(d_key, d_weights, shared.queries[stage]);
  }
  const int row = tile.begin + warp_row;
  if constexpr (kKeyGradient) {
    StoreRows<kDim>(d_key, shape.scale, shape.scale,
                    args.d_qkv + shape.KeyHead(kv_head) * shape.dim, shape.qkv_stride(), row,
                    tile.document_end, shape.dim, args.accumulate);
  }
  if constexpr (kValueGradient) {
    StoreRows<kDim>(d_value, 1.0f, 1.0f, args.d_qkv + shape.ValueHead(kv_head) * shape.dim,
                    shape.qkv_stride(), row, tile.document_end, shape.dim, args.accumulate);
  }
}

// ---- Queries ----

constexpr int kKeys = 64;  // that pass through at once

template <int kDim>
struct QueryShared {
  bf16 queries[kRows * kTileStride<kDim>];
  bf16 d_attn[kRows * kTileStride<kDim>];
  bf16 keys[2][kKeys * kTileStride<kDim>];
  bf16 values[2][kKeys * kTileStride<kDim>];
};

// What a lane knows of its two rows.
struct QueryRows {
  int query;  // the upper one; the other is 8 further
  float lse[2];
  float delta[2];
};

__device__ inline QueryRows LoadRows(const BackwardArgs& args, int query, int end, int head) {
  QueryRows rows;
  rows.query = query;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = query + half * 8;
    const int64_t statistic = int64_t{row} * args.shape.q_heads + head;
    rows.lse[half] = row < end ? args.lse[statistic] * kLog2E : 0.0f;
    rows.delta[half] = row < end ? args.delta[statistic] : 0.0f;
  }
  return rows;
}

// d_weights become the gradients of the scores but for the factor `scale`.
__device__ inline void BackwardScores(const AttentionShape& shape, const QueryRows& rows, int key0,
                                      bool masked, const float (&scores)[kKeys / 8][4],
                                      float (&d_weights)[kKeys / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float scale = shape.scale * kLog2E;
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = key0 + n * 8 + lane % 4 * 2 + i % 2;
      float p = Exp2(scores[n][i] * scale - rows.lse[i / 2]);
      if (masked && !shape.Sees(rows.query + i / 2 * 8, key)) p = 0.0f;
      d_weights[n][i] = p * (d_weights[n][i] - rows.delta[i / 2]);
    }
  }
}

// A block a tile of queries (x) and a query head (y).
template <int kDim>
__global__ void __launch_bounds__(kThreads) QueryKernel(const BackwardArgs args) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto& shared = *reinterpret_cast<QueryShared<kDim>*>(memory);
  const AttentionShape& shape = args.shape;
  const DocumentTiles<kRows> tiles{shape.documents};
  const auto tile = tiles.At(static_cast<int>(gridDim.x - 1 - blockIdx.x));
  if (tile.begin >= tile.document_end) return;
  const int head = static_cast<int>(blockIdx.y);
  const int kv_head = head / shape.group();
  const int64_t stride = shape.qkv_stride();
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  const bf16* keys = args.qkv + shape.KeyHead(kv_head) * shape.dim;
  const bf16* values = args.qkv + shape.ValueHead(kv_head) * shape.dim;
  const auto start = [&](int key0, int stage) {
    StartTile<kDim, kKeys, kThreads>(shared.keys[stage], keys, stride, key0, tile.document_end,
                                     shape.dim);
    StartTile<kDim, kKeys, kThreads>(shared.values[stage], values, stride, key0, tile.document_end,
                                     shape.dim);
    CommitTiles();
  };

  StartTile<kDim, kRows, kThreads>(shared.queries, args.qkv + head * shape.dim, stride, tile.begin,
                                   tile.document_end, shape.dim);
  StartTile<kDim, kRows, kThreads>(shared.d_attn, args.d_attn + head * shape.dim,
                                   shape.attn_stride(), tile.begin, tile.document_end, shape.dim);
  const int first = shape.FirstKey(tile.document_begin, tile.begin);
  const int end = min(tile.begin + kRows, tile.document_end);
  int key0 = tile.document_begin + (first - tile.document_begin) / kKeys * kKeys;
  start(key0, 0);
  const QueryRows rows =
      LoadRows(args, tile.begin + warp_row + static_cast<int>(threadIdx.x) % 32 / 4,
               tile.document_end, head);
  float sums[kDim / 8][4] = {};
  for (int stage = 0; key0 < end; key0 += kKeys, stage ^= 1) {
    AwaitTiles<0>();
    __syncthreads();  // the tile is there, and the one before is no longer read
    if (key0 + kKeys < end) start(key0 + kKeys, stage ^ 1);
    float scores[kKeys / 8][4];
    float d_weights[kKeys / 8][4];
    MultiplyTransposed<kDim>(scores, shared.queries, warp_row, shared.keys[stage]);
    MultiplyTransposed<kDim>(d_weights, shared.d_attn, warp_row, shared.values[stage]);
    const bool windowed = shape.window > 0 && key0 <= tile.begin + kRows - 1 - shape.window;
    BackwardScores(shape, rows, key0, key0 + kKeys - 1 > tile.begin || windowed, scores, d_weights);
    AddProduct<kDim>(sums, d_weights, shared.keys[stage]);
  }
  StoreRows<kDim>(sums, shape.scale, shape.scale, args.d_qkv + head * shape.dim, stride,
                  tile.begin + warp_row, tile.document_end, shape.dim, args.accumulate);
}

template <typename Kernel>
void Launch(Kernel kernel, size_t shared, int64_t heads, CudaLaneContext& context,
            const AttentionCall& call) {
  Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared)),
        "attention backward");
  const dim3 grid(Blocks(TileNumbers<kRows>(call.batch), 1), Count32(heads));
  kernel<<<grid, kThreads, shared, context.stream()>>>(
      {ShapeOf(call), call.qkv.as<const bf16>(), call.d_attn.as<const bf16>(),
       call.lse.as<const float>(), call.delta, call.d_qkv.as<bf16>(), call.accumulate});
}

template <int kDim>
void LaunchAll(CudaLaneContext& context, const AttentionCall& call) {
  constexpr size_t kShared = sizeof(KeyValueShared<kDim>);
  const int64_t kv_heads = call.op.kv_heads;
  if constexpr (kDim <= 128) {
    Launch(KeyValueKernel<kDim, true, true>, kShared, kv_heads, context, call);
  } else {
    Launch(KeyValueKernel<kDim, true, false>, kShared, kv_heads, context, call);
    Launch(KeyValueKernel<kDim, false, true>, kShared, kv_heads, context, call);
  }
  Launch(QueryKernel<kDim>, sizeof(QueryShared<kDim>), call.op.q_heads, context, call);
}

}  // namespace

void AttentionBackwardTensor(CudaLaneContext& context, const AttentionCall& call) {
  if (call.op.head_dim <= 64) {
    LaunchAll<64>(context, call);
  } else if (call.op.head_dim <= 128) {
    LaunchAll<128>(context, call);
  } else {
    LaunchAll<256>(context, call);
  }
  CheckLaunch("attention backward");
}

}  // namespace lazytrain::cuda
