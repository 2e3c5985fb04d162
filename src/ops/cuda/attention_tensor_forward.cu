// Forward attention on the tensor cores (Dao 2023; Shah et al. 2024): a block takes 128 queries of
// a head, a warpgroup 64 of them. Keys and values pass through shared memory, two tiles ahead; the
// scores of the next tile are under way while the softmax of this one is.
#include "ops/cuda/attention_work.cuh"

namespace lazytrain::cuda {
namespace {

constexpr int kStages = 3;

// Keys that pass through at once: what shared memory has room for, at most.
template <int kDim>
inline constexpr int kMostKeys = kDim <= 128 ? 64 : 32;
// Two blocks of one warpgroup fit on a multiprocessor and never wait for each other; where their
// tiles do not fit, one block of two.
template <int kDim>
inline constexpr int kGroups = kDim <= 128 ? 1 : 2;
template <int kDim>
inline constexpr int kQueries = 64 * kGroups<kDim>;
template <int kDim>
inline constexpr int kThreads = 128 * kGroups<kDim>;

template <int kDim, int kKeys>
struct Shared {
  Tile<kQueries<kDim>, kDim> queries;
  Tile<kKeys, kDim> keys[kStages];
  Tile<kKeys, kDim> values[kStages];
};

// The rows of a warpgroup and the key tiles they see.
struct GroupRows {
  int first;  // row in the block's tile
  int query;  // token of the lane's upper row
  int begin;  // token of the first row
  int tiles;
};

template <int kDim, int kKeys>
__device__ inline GroupRows RowsOfGroup(const QueryWork<kQueries<kDim>, kKeys>& work) {
  GroupRows rows;
  rows.first = WarpgroupOfBlock() * 64;
  rows.begin = work.begin + rows.first;
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  rows.query = rows.begin + warp * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
  const int end = min(rows.begin + 64, work.document_end);
  rows.tiles = rows.begin < end ? (end - work.first_key + kKeys - 1) / kKeys : 0;
  return rows;
}

template <int kDim, int kKeys>
__global__ void __launch_bounds__(kThreads<kDim>, 3 - kGroups<kDim>)
    ForwardKernel(const __grid_constant__ AttentionShape shape, const bf16* qkv, bf16* attn,
                  float* lse) {
  constexpr int kCount = kKeys;
  auto& shared = SharedMemory<Shared<kDim, kKeys>>();
  const auto work = QueryWorkOf<kQueries<kDim>, kKeys>(shape);
  if (work.begin >= work.document_end) return;
  const int64_t stride = shape.qkv_stride();
  const bf16* keys = qkv + shape.KeyHead(work.kv_head) * shape.dim;
  const bf16* values = qkv + shape.ValueHead(work.kv_head) * shape.dim;
  const auto start = [&](int index) {
    const int key0 = work.Key(index);
    if (index < work.tiles) {
      shared.keys[index % kStages].template Start<kThreads<kDim>>(keys, stride, key0,
                                                                  work.document_end, shape.dim);
      shared.values[index % kStages].template Start<kThreads<kDim>>(values, stride, key0,
                                                                    work.document_end, shape.dim);
    }
    EndCopyGroup();
  };

  shared.queries.template Start<kThreads<kDim>>(qkv + work.head * shape.dim, stride, work.begin,
                                                work.document_end, shape.dim);
  start(0);
  start(1);
  const GroupRows group = RowsOfGroup<kDim, kKeys>(work);
  SoftmaxRows rows;
  const float ratio = shape.BiasRatio(work.head);
  float sums[kDim / 8][4] = {};
  float scores[kCount / 8][4];
  const float scale = shape.scale * kLog2E;
  AwaitTiles<1>();
  if (group.tiles > 0) StartTransposed(scores, shared.queries, group.first, shared.keys[0]);
  AwaitProducts();
  for (int index = 0; index < work.tiles; ++index) {
    AwaitTiles<0>();  // the next tile is there, and the one before is no longer read
    start(index + 2);
    if (index >= group.tiles) continue;
    const int key0 = work.Key(index);
    float next[kCount / 8][4];
    if (index + 1 < group.tiles) {
      StartTransposed(next, shared.queries, group.first, shared.keys[(index + 1) % kStages]);
    }
    if (ratio != 0.0f) AddBiases(ratio, group.query, key0, scores);
    const bool windowed = shape.window > 0 && key0 <= group.begin + 63 - shape.window;
    if (key0 + kCount - 1 > group.begin || windowed)
      MaskTile(shape, group.query, key0, -INFINITY, scores);
    float shrink[2];
    SoftmaxTile(scores, scale, rows, shrink);
    ShrinkSums(shrink, sums);
    const LeftOperand<kCount / 8> weights(scores);
    StartProduct(sums, weights, shared.values[index % kStages]);
    AwaitProducts();
    if (index + 1 < group.tiles) {
#pragma unroll
      for (int n = 0; n < kCount / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) scores[n][i] = next[n][i];
      }
    }
  }
  StoreAttention(shape, work.head, group.query, work.document_end, rows, sums, attn, lse);
}

template <int kDim, int kKeys>
void Launch(CudaLaneContext& context, const AttentionCall& call) {
  constexpr int kShared = SharedBytes<Shared<kDim, kKeys>>;
  const auto kernel = ForwardKernel<kDim, kKeys>;
  AllowShared(context, kernel, kShared, "attention");
  const dim3 grid(Blocks(TileNumbers<kQueries<kDim>>(call.batch), 1), Count32(call.op.q_heads));
  kernel<<<grid, kThreads<kDim>, kShared, context.stream()>>>(
      ShapeOf(call), call.qkv.as<const bf16>(), call.attn.as<bf16>(), call.lse.as<float>());
}

}  // namespace

bool TensorCoresTake(const AttentionCall& call) {
  return call.qkv.dtype == DType::kBF16 && call.op.head_dim % 8 == 0 && IsAligned(call.qkv.data) &&
         IsAligned(call.attn.data) && IsAligned(call.d_attn.data) && IsAligned(call.d_qkv.data);
}

void AttentionForwardTensor(CudaLaneContext& context, const AttentionCall& call) {
  if (call.op.head_dim <= 64) {
    Launch<64, kMostKeys<64>>(context, call);
  } else if (call.op.head_dim > 128) {
    Launch<256, kMostKeys<256>>(context, call);
  } else if (SharedBytes<Shared<128, kMostKeys<128>>> <= context.gpu().shared_a_block) {
    Launch<128, kMostKeys<128>>(context, call);
  } else {
    Launch<128, kMostKeys<128> / 2>(context, call);  // sm_86 and sm_89 have 99 KB
  }
  CheckLaunch("attention");
}

}  // namespace lazytrain::cuda
