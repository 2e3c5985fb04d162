// Forward attention on Hopper (Shah et al. 2024): a block takes the queries of a head that its
// warpgroups share keys and values for, one more warpgroup copies these. The scores of the next
// tile of keys are made, and their softmax, while this tile's values are added up.
#include "device/cuda/architecture.h"
#include "ops/cuda/attention_work.cuh"
#include "ops/cuda/tensor_map.h"
#include "ops/cuda/tma.cuh"

namespace lazytrain::cuda {
namespace {

constexpr int kKeys = 128;  // that pass through at once
constexpr int kStages = 2;

constexpr int kGroups = 2;
constexpr int kQueries = 64 * kGroups;
constexpr int kThreads = 128 * (kGroups + 1);
// A thread of those that compute, and of those that copy. A block starts with 168 for every
// thread, and what some take others must give: 2 x 240 + 24 = 3 x 168.
constexpr int kRegisters = 240;
constexpr int kCopierRegisters = 24;
static_assert(kGroups * kRegisters + kCopierRegisters <= (kGroups + 1) * 168);

struct ForwardArgs {
  AttentionShape shape;
  CUtensorMap qkv;
  bf16* attn;
  float* lse;
};

template <int kDim>
struct Shared {
  Tile<kQueries, kDim> queries;
  Tile<kKeys, kDim> keys[kStages];
  Tile<kKeys, kDim> values[kStages];
  tma::Barrier queries_full;
  tma::Barrier keys_full[kStages];
  tma::Barrier values_full[kStages];
  tma::Barrier keys_empty[kStages];
  tma::Barrier values_empty[kStages];
};

using Turn = tma::Turn<kStages>;
using Work = QueryWork<kQueries, kKeys>;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int kDim>
__device__ void CopyTiles(const ForwardArgs& args, Shared<kDim>& shared, const Work& work) {
  const int key_head = args.shape.KeyHead(work.kv_head);
  const int value_head = args.shape.ValueHead(work.kv_head);
  tma::ArriveExpecting(shared.queries_full, tma::kBytes<kQueries, kDim>);
  tma::StartRows(shared.queries, args.qkv, work.head, work.begin, shared.queries_full);
  for (int index = 0; index < work.tiles; ++index) {
    const Turn turn(index);
    const int key0 = work.Key(index);
    const auto copy = [&](auto& tile, int head, tma::Barrier& full, tma::Barrier& empty) {
      if (index >= kStages) tma::Await(empty, turn.parity ^ 1);
      tma::ArriveExpecting(full, tma::kBytes<kKeys, kDim>);
      tma::StartRows(tile, args.qkv, head, key0, full);
    };
    copy(shared.keys[turn.stage], key_head, shared.keys_full[turn.stage],
         shared.keys_empty[turn.stage]);
    copy(shared.values[turn.stage], value_head, shared.values_full[turn.stage],
         shared.values_empty[turn.stage]);
  }
}

// A warp needs a buffer no more.
__device__ inline void Leave(tma::Barrier& empty) { tma::Arrive(empty); }

template <int kDim>
__device__ void Attend(const ForwardArgs& args, Shared<kDim>& shared, const Work& work) {
  const AttentionShape& shape = args.shape;
  const int row = WarpgroupOfBlock() * 64;
  const int begin = work.begin + row;
  const int query =
      begin + static_cast<int>(threadIdx.x) / 32 % 4 * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
  const int end = min(begin + 64, work.document_end);
  const int tiles = begin < end ? (end - work.first_key + kKeys - 1) / kKeys : 0;
  const float ratio = shape.BiasRatio(work.head);
  const float scale = shape.scale * kLog2E;
  SoftmaxRows rows;
  float sums[kDim / 8][4] = {};
  float scores[kKeys / 8][4];
  float shrink[2];
  const auto soften = [&](int index) {
    const int key0 = work.Key(index);
    if (ratio != 0.0f) AddBiases(ratio, query, key0, scores);
    const bool windowed = shape.window > 0 && key0 <= begin + 63 - shape.window;
    if (key0 + kKeys - 1 > begin || windowed) MaskTile(shape, query, key0, -INFINITY, scores);
    SoftmaxTile(scores, scale, rows, shrink);
  };
  if (tiles > 0) {
    tma::Await(shared.queries_full, 0);
    tma::Await(shared.keys_full[0], 0);
    StartTransposed(scores, shared.queries, row, shared.keys[0]);
    wgmma::Await<0>();
    wgmma::FenceRegisters(scores);
    Leave(shared.keys_empty[0]);
    soften(0);
    LeftOperand<kKeys / 8> weights(scores);
    for (int index = 1; index < tiles; ++index) {
      const Turn next(index);
      const Turn turn(index - 1);
      tma::Await(shared.keys_full[next.stage], next.parity);
      StartTransposed(scores, shared.queries, row, shared.keys[next.stage]);
      tma::Await(shared.values_full[turn.stage], turn.parity);
      StartProduct(sums, weights, shared.values[turn.stage]);
      wgmma::Await<1>();
      wgmma::FenceRegisters(scores);
      Leave(shared.keys_empty[next.stage]);
      soften(index);
      wgmma::Await<0>();
      wgmma::FenceRegisters(sums);
      Leave(shared.values_empty[turn.stage]);
      ShrinkSums(shrink, sums);
      weights = LeftOperand<kKeys / 8>(scores);
    }
    const Turn last(tiles - 1);
    tma::Await(shared.values_full[last.stage], last.parity);
    StartProduct(sums, weights, shared.values[last.stage]);
    wgmma::Await<0>();
    wgmma::FenceRegisters(sums);
    Leave(shared.values_empty[last.stage]);
  }
  // Tiles that only the other warpgroups see; the copier waits for everybody.
  for (int index = tiles; index < work.tiles; ++index) {
    const Turn turn(index);
    tma::Await(shared.keys_full[turn.stage], turn.parity);
    Leave(shared.keys_empty[turn.stage]);
    tma::Await(shared.values_full[turn.stage], turn.parity);
    Leave(shared.values_empty[turn.stage]);
  }
  if (tiles > 0) {
    StoreAttention(shape, work.head, query, work.document_end, rows, sums, args.attn, args.lse);
  }
}

template <int kDim>
__device__ void InitBarriers(Shared<kDim>& shared) {
  constexpr int kWarps = 4 * kGroups;
  tma::Init(shared.queries_full, 1);
  for (int stage = 0; stage < kStages; ++stage) {
    tma::Init(shared.keys_full[stage], 1);
    tma::Init(shared.values_full[stage], 1);
    tma::Init(shared.keys_empty[stage], kWarps * tma::kWarpArrivals);
    tma::Init(shared.values_empty[stage], kWarps * tma::kWarpArrivals);
  }
  tma::FenceBarriers();
}

#endif

// A block a tile of queries (x) and a query head (y).
template <int kDim>
__global__ void __launch_bounds__(kThreads, 1)
    ForwardKernel(const __grid_constant__ ForwardArgs args) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  auto& shared = SharedMemory<Shared<kDim>>();
  const Work work = QueryWorkOf<kQueries, kKeys>(args.shape);
  if (work.begin >= work.document_end) return;
  if (threadIdx.x == 0) InitBarriers(shared);
  __syncthreads();
  if (threadIdx.x >= 128 * kGroups) {
    tma::GiveRegisters<kCopierRegisters>();
    if (threadIdx.x == 128 * kGroups) CopyTiles(args, shared, work);
  } else {
    tma::TakeRegisters<kRegisters>();
    Attend(args, shared, work);
  }
#endif
}

template <int kDim>
void Launch(CudaLaneContext& context, const AttentionCall& call) {
  constexpr int kShared = SharedBytes<Shared<kDim>>;
  AllowShared(context, ForwardKernel<kDim>, kShared, "attention");
  const dim3 grid(Blocks(TileNumbers<kQueries>(call.batch), 1), Count32(call.op.q_heads));
  ForwardKernel<kDim><<<grid, kThreads, kShared, context.stream()>>>(
      {ShapeOf(call), MapOfHeads(call.qkv, call.op.head_dim), call.attn.as<bf16>(),
       call.lse.as<float>()});
}

}  // namespace

bool HopperTakes(const CudaLaneContext& context, const AttentionCall& call) {
  return BuiltForHopper() && context.gpu().architecture == 90 && TensorCoresTake(call) &&
         call.op.head_dim >= 64 && call.op.head_dim <= 128;
}

void AttentionForwardHopper(CudaLaneContext& context, const AttentionCall& call) {
  if (call.op.head_dim == 64) {
    Launch<64>(context, call);
  } else {
    Launch<128>(context, call);
  }
  CheckLaunch("attention");
}

}  // namespace lazytrain::cuda
