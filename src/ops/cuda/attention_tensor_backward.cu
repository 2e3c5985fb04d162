// Backward attention on the tensor cores: one kernel for the gradients of keys and values, one for
// those of queries. Scores are made twice, and in return every sum has one owner and one order, and
// nothing but a float a row (delta) waits in memory.
#include "ops/cuda/attention_work.cuh"

namespace lazytrain::cuda {
namespace {

// Warpgroups of a block, each with 64 rows that it owns: keys, or queries. Two blocks of one fit on
// a multiprocessor and never wait for each other; where their tiles do not fit, one block of two.
template <int kDim>
inline constexpr int kGroups = kDim <= 128 ? 1 : 2;
template <int kDim>
inline constexpr int kRows = 64 * kGroups<kDim>;
template <int kDim>
inline constexpr int kThreads = 128 * kGroups<kDim>;

// Rows of the other kind that pass through at once: what shared memory has room for.
template <int kDim>
inline constexpr int kPassing = kDim <= 128 ? 64 : 32;

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

template <int kDim>
struct KeyValueShared {
  Tile<kRows<kDim>, kDim> keys;
  Tile<kRows<kDim>, kDim> values;
  Tile<kPassing<kDim>, kDim> queries[2];
  Tile<kPassing<kDim>, kDim> d_attn[2];
  float lse[2][kPassing<kDim>];  // in powers of two
  float delta[2][kPassing<kDim>];
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
      scores[n][i] = Exp2(scores[n][i] * scale - lse[col]);
    }
  }
  if (masked) MaskTransposed(shape, key, query0, end, 0.0f, scores);
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int col = n * 8 + lane % 4 * 2 + i % 2;
      d_weights[n][i] = scores[n][i] * (d_weights[n][i] - delta[col]);
    }
  }
}

// Copies a tile of queries with everything that belongs to its rows.
template <int kDim>
__device__ inline void StartQueries(const BackwardArgs& args, KeyValueShared<kDim>& shared,
                                    int stage, int head, int query0, int end) {
  const AttentionShape& shape = args.shape;
  shared.queries[stage].template Start<kThreads<kDim>>(args.qkv + head * shape.dim,
                                                       shape.qkv_stride(), query0, end, shape.dim);
  shared.d_attn[stage].template Start<kThreads<kDim>>(args.d_attn + head * shape.dim,
                                                      shape.attn_stride(), query0, end, shape.dim);
  EndCopyGroup();
  const int row = static_cast<int>(threadIdx.x);
  if (row >= kPassing<kDim>) return;
  const int64_t statistic = int64_t{query0 + row} * shape.q_heads + head;
  const bool is_there = query0 + row < end;
  shared.lse[stage][row] = is_there ? args.lse[statistic] * kLog2E : 0.0f;
  shared.delta[stage][row] = is_there ? args.delta[statistic] : 0.0f;
}

// A block a tile of keys (x) and a key head (y): its query heads in turn, their tiles in order.
// With head dimensions beyond 128 registers hold one of the two sums, and the kernel runs for each.
template <int kDim, bool kKeyGradient, bool kValueGradient>
__global__ void __launch_bounds__(kThreads<kDim>, 3 - kGroups<kDim>)
    KeyValueKernel(const __grid_constant__ BackwardArgs args) {
  constexpr int kCount = kPassing<kDim>;
  auto& shared = SharedMemory<KeyValueShared<kDim>>();
  const AttentionShape& shape = args.shape;
  const DocumentTiles<kRows<kDim>> all_tiles{shape.documents};
  const auto tile = all_tiles.At(static_cast<int>(blockIdx.x));
  if (tile.begin >= tile.document_end) return;
  const int kv_head = static_cast<int>(blockIdx.y);
  const int group_key = tile.begin + GroupRow();
  const int last_query = shape.EndQuery(tile.document_end, tile.begin + kRows<kDim> - 1);
  const int tiles = (last_query - tile.begin + kCount - 1) / kCount;
  const int count = tiles * shape.group();
  const auto start = [&](int index) {
    StartQueries<kDim>(args, shared, index % 2, kv_head * shape.group() + index / tiles,
                       tile.begin + index % tiles * kCount, tile.document_end);
  };

  shared.keys.template Start<kThreads<kDim>>(args.qkv + shape.KeyHead(kv_head) * shape.dim,
                                             shape.qkv_stride(), tile.begin, tile.document_end,
                                             shape.dim);
  shared.values.template Start<kThreads<kDim>>(args.qkv + shape.ValueHead(kv_head) * shape.dim,
                                               shape.qkv_stride(), tile.begin, tile.document_end,
                                               shape.dim);
  start(0);
  float d_key[kDim / 8][4] = {};
  float d_value[kDim / 8][4] = {};
  for (int index = 0; index < count; ++index) {
    const int stage = index % 2;
    AwaitTiles<0>();  // the tile is there, and the one before is no longer read
    if (index + 1 < count) start(index + 1);
    const int query0 = tile.begin + index % tiles * kCount;
    // Queries before all of the warpgroup's keys.
    if (query0 + kCount <= group_key) continue;
    float scores[kCount / 8][4];
    float d_weights[kCount / 8][4] = {};
    StartTransposed(scores, shared.keys, GroupRow(), shared.queries[stage]);
    if constexpr (kKeyGradient) {
      StartTransposed(d_weights, shared.values, GroupRow(), shared.d_attn[stage]);
    }
    AwaitProducts();
    const float ratio = shape.BiasRatio(kv_head * shape.group() + index / tiles);
    if (ratio != 0.0f) AddBiasesTransposed(ratio, tile.begin + LaneRow(), query0, scores);
    const bool masked = query0 < group_key + 64 || query0 + kCount > tile.document_end ||
                        (shape.window > 0 && query0 + kCount - 1 - shape.window >= group_key);
    BackwardScores(shape, shared.lse[stage], shared.delta[stage], tile.begin + LaneRow(), query0,
                   tile.document_end, masked, scores, d_weights);
    const LeftOperand<kCount / 8> weights(scores);
    const LeftOperand<kCount / 8> d_scores(d_weights);
    if constexpr (kValueGradient) StartProduct(d_value, weights, shared.d_attn[stage]);
    if constexpr (kKeyGradient) StartProduct(d_key, d_scores, shared.queries[stage]);
    AwaitProducts();
  }
  const int row = tile.begin + WarpRow();
  if constexpr (kKeyGradient) {
    StoreRows(d_key, shape.scale, shape.scale, args.d_qkv + shape.KeyHead(kv_head) * shape.dim,
              shape.qkv_stride(), row, tile.document_end, shape.dim, args.accumulate);
  }
  if constexpr (kValueGradient) {
    StoreRows(d_value, 1.0f, 1.0f, args.d_qkv + shape.ValueHead(kv_head) * shape.dim,
              shape.qkv_stride(), row, tile.document_end, shape.dim, args.accumulate);
  }
}

// ---- Queries ----

template <int kDim>
struct QueryShared {
  Tile<kRows<kDim>, kDim> queries;
  Tile<kRows<kDim>, kDim> d_attn;
  Tile<kPassing<kDim>, kDim> keys[2];
  Tile<kPassing<kDim>, kDim> values[2];
};

// Scores become probabilities, d_weights their scores' gradients but for the factor `scale`.
template <int kBlocks>
__device__ inline void BackwardScores(const AttentionShape& shape, const QueryRows& rows, int key0,
                                      bool masked, float (&scores)[kBlocks][4],
                                      float (&d_weights)[kBlocks][4]) {
  const float scale = shape.scale * kLog2E;
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      scores[n][i] = Exp2(scores[n][i] * scale - rows.lse[i / 2]);
    }
  }
  if (masked) MaskTile(shape, rows.query, key0, 0.0f, scores);
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      d_weights[n][i] = scores[n][i] * (d_weights[n][i] - rows.delta[i / 2]);
    }
  }
}

// A block a tile of queries (x) and a query head (y).
template <int kDim>
__global__ void __launch_bounds__(kThreads<kDim>, 3 - kGroups<kDim>)
    QueryKernel(const __grid_constant__ BackwardArgs args) {
  constexpr int kCount = kPassing<kDim>;
  auto& shared = SharedMemory<QueryShared<kDim>>();
  const AttentionShape& shape = args.shape;
  const auto work = QueryWorkOf<kRows<kDim>, kCount>(shape);
  if (work.begin >= work.document_end) return;
  const int64_t stride = shape.qkv_stride();
  const bf16* keys = args.qkv + shape.KeyHead(work.kv_head) * shape.dim;
  const bf16* values = args.qkv + shape.ValueHead(work.kv_head) * shape.dim;
  const auto start = [&](int key0, int stage) {
    shared.keys[stage].template Start<kThreads<kDim>>(keys, stride, key0, work.document_end,
                                                      shape.dim);
    shared.values[stage].template Start<kThreads<kDim>>(values, stride, key0, work.document_end,
                                                        shape.dim);
    EndCopyGroup();
  };

  shared.queries.template Start<kThreads<kDim>>(args.qkv + work.head * shape.dim, stride,
                                                work.begin, work.document_end, shape.dim);
  shared.d_attn.template Start<kThreads<kDim>>(args.d_attn + work.head * shape.dim,
                                               shape.attn_stride(), work.begin, work.document_end,
                                               shape.dim);
  start(work.first_key, 0);
  const QueryRows rows = LoadRows(args.lse, args.delta, shape.q_heads, work.begin + LaneRow(),
                                  work.document_end, work.head);
  const int group_query = work.begin + GroupRow();
  const int group_end = group_query < work.end ? min(group_query + 64, work.end) : 0;
  float sums[kDim / 8][4] = {};
  int stage = 0;
  for (int key0 = work.first_key; key0 < work.end; key0 += kCount, stage ^= 1) {
    AwaitTiles<0>();  // the tile is there, and the one before is no longer read
    if (key0 + kCount < work.end) start(key0 + kCount, stage ^ 1);
    if (key0 >= group_end) continue;  // keys behind all of the warpgroup's queries
    float scores[kCount / 8][4];
    float d_weights[kCount / 8][4];
    StartTransposed(scores, shared.queries, GroupRow(), shared.keys[stage]);
    StartTransposed(d_weights, shared.d_attn, GroupRow(), shared.values[stage]);
    AwaitProducts();
    const float ratio = shape.BiasRatio(work.head);
    if (ratio != 0.0f) AddBiases(ratio, rows.query, key0, scores);
    const bool windowed = shape.window > 0 && key0 <= group_query + 63 - shape.window;
    BackwardScores(shape, rows, key0, key0 + kCount - 1 > group_query || windowed, scores,
                   d_weights);
    const LeftOperand<kCount / 8> d_scores(d_weights);
    StartProduct(sums, d_scores, shared.keys[stage]);
    AwaitProducts();
  }
  StoreRows(sums, shape.scale, shape.scale, args.d_qkv + work.head * shape.dim, stride,
            work.begin + WarpRow(), work.document_end, shape.dim, args.accumulate);
}

template <int kDim, typename Kernel>
void Launch(Kernel kernel, int shared, int64_t heads, CudaLaneContext& context,
            const AttentionCall& call) {
  AllowShared(context, kernel, shared, "attention backward");
  const dim3 grid(Blocks(TileNumbers<kRows<kDim>>(call.batch), 1), Count32(heads));
  kernel<<<grid, kThreads<kDim>, shared, context.stream()>>>(
      {ShapeOf(call), call.qkv.as<const bf16>(), call.d_attn.as<const bf16>(),
       call.lse.as<const float>(), call.delta, call.d_qkv.as<bf16>(), call.accumulate});
}

template <int kDim>
void LaunchAll(CudaLaneContext& context, const AttentionCall& call) {
  constexpr int kShared = SharedBytes<KeyValueShared<kDim>>;
  const int64_t kv_heads = call.op.kv_heads;
  if constexpr (kDim <= 128) {
    Launch<kDim>(KeyValueKernel<kDim, true, true>, kShared, kv_heads, context, call);
  } else {
    Launch<kDim>(KeyValueKernel<kDim, true, false>, kShared, kv_heads, context, call);
    Launch<kDim>(KeyValueKernel<kDim, false, true>, kShared, kv_heads, context, call);
  }
  Launch<kDim>(QueryKernel<kDim>, SharedBytes<QueryShared<kDim>>, call.op.q_heads, context, call);
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
