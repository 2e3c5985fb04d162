// Backward attention on Hopper, as attention_tensor_backward.cu divides it: one kernel for the
// gradients of keys and values, one for those of queries, every sum with one owner and one order. A
// warpgroup more than compute copies what passes through; the products that add to gradients are
// still under way while the next scores are made.
#include "ops/cuda/attention_work.cuh"
#include "ops/cuda/tensor_map.h"
#include "ops/cuda/tma.cuh"

namespace lazytrain::cuda {
namespace {

constexpr int kPassing = 64;  // rows of the other kind that pass through at once
constexpr int kStages = 3;
using Turn = tma::Turn<kStages>;

struct BackwardArgs {
  AttentionShape shape;
  CUtensorMap qkv;
  CUtensorMap d_attn;
  const float* lse;
  const float* delta;
  bf16* d_qkv;
  bool accumulate;
};

// Warpgroups of a block that compute, each with 64 rows that it owns: keys, or queries.
constexpr int kGroups = 2;
constexpr int kRows = 64 * kGroups;
constexpr int kThreads = 128 * (kGroups + 1);
// A thread of those that compute, and of those that copy. A block starts with 168 for every
// thread, and what some take others must give: 2 x 240 + 24 = 3 x 168.
constexpr int kRegisters = 240;
constexpr int kCopierRegisters = 24;
static_assert(kGroups * kRegisters + kCopierRegisters <= (kGroups + 1) * 168);

struct Barriers {
  tma::Barrier held;  // what the block owns is there
  tma::Barrier full[kStages];
  tma::Barrier empty[kStages];
};

template <int kDim>
struct KeyValueShared {
  Tile<kRows, kDim> keys;
  Tile<kRows, kDim> values;
  Tile<kPassing, kDim> queries[kStages];
  Tile<kPassing, kDim> d_attn[kStages];
  float lse[kStages][kPassing];  // in powers of two
  float delta[kStages][kPassing];
  Barriers barriers;
};

template <int kDim>
struct QueryShared {
  Tile<kRows, kDim> queries;
  Tile<kRows, kDim> d_attn;
  Tile<kPassing, kDim> keys[kStages];
  Tile<kPassing, kDim> values[kStages];
  Barriers barriers;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ inline void InitBarriers(Barriers& barriers, int filled_by) {
  if (threadIdx.x == 0) {
    tma::Init(barriers.held, 1);
    for (int stage = 0; stage < kStages; ++stage) {
      tma::Init(barriers.full[stage], filled_by);
      tma::Init(barriers.empty[stage], 4 * kGroups * tma::kWarpArrivals);
    }
    tma::FenceBarriers();
  }
  __syncthreads();
}

__device__ inline void AwaitEmpty(Barriers& barriers, int index) {
  const Turn turn(index);
  if (index >= kStages) tma::Await(barriers.empty[turn.stage], turn.parity ^ 1);
}

// A warp needs a tile that passes no more.
__device__ inline void Leave(Barriers& barriers, int index) {
  tma::Arrive(barriers.empty[Turn(index).stage]);
}

// ---- Keys and values ----

// Which tiles of queries pass by the keys of a block.
struct KeyWork {
  int kv_head;
  int begin;  // of its keys
  int document_end;
  int tiles;  // of queries, for each query head
  int count;  // with all query heads

  __device__ int Head(const AttentionShape& shape, int index) const {
    return kv_head * shape.group() + index / tiles;
  }
  __device__ int Query(int index) const { return begin + index % tiles * kPassing; }
};

__device__ inline KeyWork KeyWorkOf(const AttentionShape& shape) {
  const DocumentTiles<kRows> all_tiles{shape.documents};
  const auto tile = all_tiles.At(static_cast<int>(blockIdx.x));
  const int last_query = shape.EndQuery(tile.document_end, tile.begin + kRows - 1);
  const int tiles = (last_query - tile.begin + kPassing - 1) / kPassing;
  return {static_cast<int>(blockIdx.y), tile.begin, tile.document_end, tiles,
          tiles * shape.group()};
}

template <int kDim>
__device__ void CopyQueries(const BackwardArgs& args, KeyValueShared<kDim>& shared,
                            const KeyWork& work) {
  const AttentionShape& shape = args.shape;
  Barriers& barriers = shared.barriers;
  tma::ArriveExpecting(barriers.held, 2 * tma::kBytes<kRows, kDim>);
  tma::StartRows(shared.keys, args.qkv, shape.KeyHead(work.kv_head), work.begin, barriers.held);
  tma::StartRows(shared.values, args.qkv, shape.ValueHead(work.kv_head), work.begin, barriers.held);
  for (int index = 0; index < work.count; ++index) {
    const int stage = Turn(index).stage;
    const int head = work.Head(shape, index);
    const int query0 = work.Query(index);
    AwaitEmpty(barriers, index);
    tma::ArriveExpecting(barriers.full[stage], 2 * tma::kBytes<kPassing, kDim>);
    tma::StartRows(shared.queries[stage], args.qkv, head, query0, barriers.full[stage]);
    tma::StartRows(shared.d_attn[stage], args.d_attn, head, query0, barriers.full[stage]);
  }
}

// What belongs to rows [row0, row0 + 32) of those that pass; by one warp.
template <int kDim>
__device__ void CopyStatistics(const BackwardArgs& args, KeyValueShared<kDim>& shared,
                               const KeyWork& work, int row0) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int index = 0; index < work.count; ++index) {
    const int stage = Turn(index).stage;
    const int query = work.Query(index) + row0 + lane;
    float lse = 0.0f;
    float delta = 0.0f;
    if (query < work.document_end) {
      const int64_t at = int64_t{query} * args.shape.q_heads + work.Head(args.shape, index);
      lse = args.lse[at] * kLog2E;
      delta = args.delta[at];
    }
    AwaitEmpty(shared.barriers, index);
    shared.lse[stage][row0 + lane] = lse;
    shared.delta[stage][row0 + lane] = delta;
    tma::Arrive(shared.barriers.full[stage]);
  }
}

// Transposed scores (a row a key) become probabilities.
template <int kBlocks>
__device__ inline void Probabilities(const AttentionShape& shape, const float* lse, int key,
                                     int query0, int end, bool masked,
                                     float (&scores)[kBlocks][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float scale = shape.scale * kLog2E;
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
    const float2 base = *reinterpret_cast<const float2*>(lse + n * 8 + lane % 4 * 2);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      scores[n][i] = Exp2(scores[n][i] * scale - (i % 2 == 0 ? base.x : base.y));
    }
  }
  if (masked) MaskTransposed(shape, key, query0, end, 0.0f, scores);
}

// d_weights become the scores' gradients but for the factor `scale`.
template <int kBlocks>
__device__ inline void ScoreGradients(const float* delta, const float (&weights)[kBlocks][4],
                                      float (&d_weights)[kBlocks][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
    const float2 both = *reinterpret_cast<const float2*>(delta + n * 8 + lane % 4 * 2);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      d_weights[n][i] = weights[n][i] * (d_weights[n][i] - (i % 2 == 0 ? both.x : both.y));
    }
  }
}

template <int kDim>
__device__ void AddKeyValueGradients(const BackwardArgs& args, KeyValueShared<kDim>& shared,
                                     const KeyWork& work) {
  const AttentionShape& shape = args.shape;
  Barriers& barriers = shared.barriers;
  const int group_key = work.begin + GroupRow();
  float d_key[kDim / 8][4] = {};
  float d_value[kDim / 8][4] = {};
  float scores[kPassing / 8][4];
  float d_weights[kPassing / 8][4];
  const int key = work.begin + LaneRow();
  // Queries before all of the warpgroup's keys, or all of them where it has no keys.
  const int skipped = group_key < work.document_end ? GroupRow() / kPassing : work.tiles;
  const auto skip = [&](int index) {
    const Turn turn(index);
    tma::Await(barriers.full[turn.stage], turn.parity);
    Leave(barriers, index);
  };
  tma::Await(barriers.held, 0);
  for (int first = 0; first < work.count; first += work.tiles) {  // a query head
    const float ratio = shape.BiasRatio(work.Head(shape, first));
    for (int tile = 0; tile < min(skipped, work.tiles); ++tile) skip(first + tile);
    for (int tile = skipped; tile < work.tiles; ++tile) {
      const Turn turn(first + tile);
      const int stage = turn.stage;
      const int query0 = work.begin + tile * kPassing;
      tma::Await(barriers.full[stage], turn.parity);
      StartTransposed(scores, shared.keys, GroupRow(), shared.queries[stage]);
      StartTransposed(d_weights, shared.values, GroupRow(), shared.d_attn[stage]);
      wgmma::Await<1>();
      wgmma::FenceRegisters(scores);
      if (ratio != 0.0f) AddBiasesTransposed(ratio, key, query0, scores);
      const bool masked = query0 < group_key + 64 || query0 + kPassing > work.document_end ||
                          (shape.window > 0 && query0 + kPassing - 1 - shape.window >= group_key);
      Probabilities(shape, shared.lse[stage], key, query0, work.document_end, masked, scores);
      const LeftOperand<kPassing / 8> weights(scores);
      wgmma::Await<0>();
      wgmma::FenceRegisters(d_weights);
      StartProduct(d_value, weights, shared.d_attn[stage]);
      ScoreGradients(shared.delta[stage], scores, d_weights);
      const LeftOperand<kPassing / 8> d_scores(d_weights);
      StartProduct(d_key, d_scores, shared.queries[stage]);
      // Registers do not hold the next scores beside these products' operands.
      wgmma::Await<0>();
      wgmma::FenceRegisters(d_key);
      wgmma::FenceRegisters(d_value);
      Leave(barriers, first + tile);
    }
  }
  const int row = work.begin + WarpRow();
  StoreRows(d_key, shape.scale, shape.scale, args.d_qkv + shape.KeyHead(work.kv_head) * shape.dim,
            shape.qkv_stride(), row, work.document_end, shape.dim, args.accumulate);
  StoreRows(d_value, 1.0f, 1.0f, args.d_qkv + shape.ValueHead(work.kv_head) * shape.dim,
            shape.qkv_stride(), row, work.document_end, shape.dim, args.accumulate);
}

// ---- Queries ----

using Work = QueryWork<kRows, kPassing>;

template <int kDim>
__device__ void CopyKeys(const BackwardArgs& args, QueryShared<kDim>& shared, const Work& work) {
  const AttentionShape& shape = args.shape;
  Barriers& barriers = shared.barriers;
  tma::ArriveExpecting(barriers.held, 2 * tma::kBytes<kRows, kDim>);
  tma::StartRows(shared.queries, args.qkv, work.head, work.begin, barriers.held);
  tma::StartRows(shared.d_attn, args.d_attn, work.head, work.begin, barriers.held);
  for (int index = 0; index < work.tiles; ++index) {
    const int stage = Turn(index).stage;
    AwaitEmpty(barriers, index);
    tma::ArriveExpecting(barriers.full[stage], 2 * tma::kBytes<kPassing, kDim>);
    tma::StartRows(shared.keys[stage], args.qkv, shape.KeyHead(work.kv_head), work.Key(index),
                   barriers.full[stage]);
    tma::StartRows(shared.values[stage], args.qkv, shape.ValueHead(work.kv_head), work.Key(index),
                   barriers.full[stage]);
  }
}

template <int kBlocks>
__device__ inline void Probabilities(const AttentionShape& shape, const QueryRows& rows, int key0,
                                     bool masked, float (&scores)[kBlocks][4]) {
  const float scale = shape.scale * kLog2E;
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      scores[n][i] = Exp2(scores[n][i] * scale - rows.lse[i / 2]);
    }
  }
  if (masked) MaskTile(shape, rows.query, key0, 0.0f, scores);
}

template <int kDim>
__device__ void AddQueryGradients(const BackwardArgs& args, QueryShared<kDim>& shared,
                                  const Work& work) {
  const AttentionShape& shape = args.shape;
  Barriers& barriers = shared.barriers;
  const QueryRows rows = LoadRows(args.lse, args.delta, shape.q_heads, work.begin + LaneRow(),
                                  work.document_end, work.head);
  const int group_query = work.begin + GroupRow();
  const int group_end =
      group_query < work.document_end ? min(group_query + 64, work.document_end) : 0;
  const float ratio = shape.BiasRatio(work.head);
  float sums[kDim / 8][4] = {};
  float scores[kPassing / 8][4];
  float d_weights[kPassing / 8][4];
  tma::Await(barriers.held, 0);
  // Keys behind all of the warpgroup's queries come last.
  const int own =
      group_end > work.first_key ? (group_end - work.first_key + kPassing - 1) / kPassing : 0;
  for (int index = 0; index < own; ++index) {
    const Turn turn(index);
    const int stage = turn.stage;
    const int key0 = work.Key(index);
    tma::Await(barriers.full[stage], turn.parity);
    StartTransposed(scores, shared.queries, GroupRow(), shared.keys[stage]);
    StartTransposed(d_weights, shared.d_attn, GroupRow(), shared.values[stage]);
    wgmma::Await<1>();
    wgmma::FenceRegisters(scores);
    if (index > 0) Leave(barriers, index - 1);  // the product that read it is done
    if (ratio != 0.0f) AddBiases(ratio, rows.query, key0, scores);
    const bool windowed = shape.window > 0 && key0 <= group_query + 63 - shape.window;
    Probabilities(shape, rows, key0, key0 + kPassing - 1 > group_query || windowed, scores);
    wgmma::Await<0>();
    wgmma::FenceRegisters(d_weights);
#pragma unroll
    for (int n = 0; n < kPassing / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        d_weights[n][i] = scores[n][i] * (d_weights[n][i] - rows.delta[i / 2]);
      }
    }
    const LeftOperand<kPassing / 8> d_scores(d_weights);
    StartProduct(sums, d_scores, shared.keys[stage]);
  }
  wgmma::Await<0>();
  wgmma::FenceRegisters(sums);
  for (int index = max(own - 1, 0); index < work.tiles; ++index) {
    const Turn turn(index);
    tma::Await(barriers.full[turn.stage], turn.parity);
    Leave(barriers, index);
  }
  StoreRows(sums, shape.scale, shape.scale, args.d_qkv + work.head * shape.dim, shape.qkv_stride(),
            work.begin + WarpRow(), work.document_end, shape.dim, args.accumulate);
}

#endif

// A block a tile of keys (x) and a key head (y): its query heads in turn, their tiles in order.
template <int kDim>
__global__ void __launch_bounds__(kThreads, 1)
    KeyValueKernel(const __grid_constant__ BackwardArgs args) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  auto& shared = SharedMemory<KeyValueShared<kDim>>();
  const KeyWork work = KeyWorkOf(args.shape);
  if (work.begin >= work.document_end) return;
  InitBarriers(shared.barriers, 1 + kPassing / 32 * tma::kWarpArrivals);
  if (threadIdx.x >= 128 * kGroups) {
    tma::GiveRegisters<kCopierRegisters>();
    const int warp = static_cast<int>(threadIdx.x) / 32 - 4 * kGroups;
    if (warp == 0 && threadIdx.x % 32 == 0) CopyQueries(args, shared, work);
    if (warp == 1 || warp == 2) CopyStatistics(args, shared, work, (warp - 1) * 32);
  } else {
    tma::TakeRegisters<kRegisters>();
    AddKeyValueGradients(args, shared, work);
  }
#endif
}

// A block a tile of queries (x) and a query head (y).
template <int kDim>
__global__ void __launch_bounds__(kThreads, 1)
    QueryKernel(const __grid_constant__ BackwardArgs args) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  auto& shared = SharedMemory<QueryShared<kDim>>();
  const Work work = QueryWorkOf<kRows, kPassing>(args.shape);
  if (work.begin >= work.document_end) return;
  InitBarriers(shared.barriers, 1);
  if (threadIdx.x >= 128 * kGroups) {
    tma::GiveRegisters<kCopierRegisters>();
    if (threadIdx.x == 128 * kGroups) CopyKeys(args, shared, work);
  } else {
    tma::TakeRegisters<kRegisters>();
    AddQueryGradients(args, shared, work);
  }
#endif
}

template <typename Kernel>
void Launch(Kernel kernel, int shared, int64_t heads, CudaLaneContext& context,
            const AttentionCall& call) {
  AllowShared(context, kernel, shared, "attention backward");
  const dim3 grid(Blocks(TileNumbers<kRows>(call.batch), 1), Count32(heads));
  kernel<<<grid, kThreads, shared, context.stream()>>>(
      {ShapeOf(call), MapOfHeads(call.qkv, call.op.head_dim),
       MapOfHeads(call.d_attn, call.op.head_dim), call.lse.as<const float>(), call.delta,
       call.d_qkv.as<bf16>(), call.accumulate});
}

template <int kDim>
void LaunchAll(CudaLaneContext& context, const AttentionCall& call) {
  Launch(KeyValueKernel<kDim>, SharedBytes<KeyValueShared<kDim>>, call.op.kv_heads, context, call);
  Launch(QueryKernel<kDim>, SharedBytes<QueryShared<kDim>>, call.op.q_heads, context, call);
}

}  // namespace

void AttentionBackwardHopper(CudaLaneContext& context, const AttentionCall& call) {
  if (call.op.head_dim == 64) {
    LaunchAll<64>(context, call);
  } else {
    LaunchAll<128>(context, call);
  }
  CheckLaunch("attention backward");
}

}  // namespace lazytrain::cuda
