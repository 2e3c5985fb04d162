// Forward attention on the tensor cores (Dao 2023; Shah et al. 2024): a block takes 128 queries of
// a head, a warpgroup 64 of them. Keys and values pass through shared memory, two tiles ahead; the
// scores of the next tile are under way while the softmax of this one is.
#include "ops/cuda/attention_shape.cuh"
#include "ops/cuda/attention_tiles.cuh"
#include "ops/cuda/reduce.cuh"

namespace lazytrain::cuda {
namespace {

constexpr int kStages = 3;
constexpr float kLog2E = 1.44269504088896341f;

// Keys that pass through at once: what shared memory has room for.
template <int kDim>
inline constexpr int kKeys = kDim <= 128 ? 64 : 32;
// Two blocks of one warpgroup fit on a multiprocessor and never wait for each other; where their
// tiles do not fit, one block of two.
template <int kDim>
inline constexpr int kGroups = kDim <= 128 ? 1 : 2;
template <int kDim>
inline constexpr int kQueries = 64 * kGroups<kDim>;
template <int kDim>
inline constexpr int kThreads = 128 * kGroups<kDim>;

template <int kDim>
struct Shared {
  Tile<kQueries<kDim>, kDim> queries;
  Tile<kKeys<kDim>, kDim> keys[kStages];
  Tile<kKeys<kDim>, kDim> values[kStages];
};

// Statistics of a lane's two rows.
struct Rows {
  float max[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0.0f, 0.0f};  // of the lane's own columns
};

// Scores become probabilities relative to the new maxima; earlier sums follow them. `scale`: from
// scores to powers of two.
template <int kBlocks, int kSumBlocks>
__device__ inline void SoftmaxTile(float (&scores)[kBlocks][4], float scale, Rows& rows,
                                   float (&sums)[kSumBlocks][4]) {
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
    const float shrink = Exp2(rows.max[half] * scale - base);
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
    rows.sum[half] = rows.sum[half] * shrink + sum;
    // Maxima soon settle: then nothing follows them.
    if (!__any_sync(kAllLanes, shrink != 1.0f)) continue;
#pragma unroll
    for (int n = 0; n < kSumBlocks; ++n) {
      sums[n][2 * half] *= shrink;
      sums[n][2 * half + 1] *= shrink;
    }
  }
}

template <int kBlocks>
__device__ inline void MaskTile(const AttentionShape& shape, int query, int key0,
                                float (&scores)[kBlocks][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int key = key0 + n * 8 + lane % 4 * 2 + i % 2;
      if (!shape.Sees(query + i / 2 * 8, key)) scores[n][i] = -INFINITY;
    }
  }
}

// The rows of a warpgroup and the key tiles they see.
struct GroupRows {
  int first;  // row in the block's tile
  int query;  // token of the lane's upper row
  int begin;  // token of the first row
  int tiles;
};

template <int kDim>
__device__ inline GroupRows RowsOfGroup(const typename DocumentTiles<kQueries<kDim>>::Tile& tile,
                                        int first_key) {
  GroupRows rows;
  rows.first = static_cast<int>(threadIdx.x) / 128 * 64;
  rows.begin = tile.begin + rows.first;
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  rows.query = rows.begin + warp * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
  const int end = min(rows.begin + 64, tile.document_end);
  rows.tiles = rows.begin < end ? (end - first_key + kKeys<kDim> - 1) / kKeys<kDim> : 0;
  return rows;
}

template <int kDim>
__global__ void __launch_bounds__(kThreads<kDim>, 3 - kGroups<kDim>)
    ForwardKernel(const AttentionShape shape, const bf16* qkv, bf16* attn, float* lse) {
  constexpr int kCount = kKeys<kDim>;
  auto& shared = SharedMemory<Shared<kDim>>();
  const DocumentTiles<kQueries<kDim>> tiles{shape.documents};
  const auto tile = tiles.At(static_cast<int>(gridDim.x - 1 - blockIdx.x));
  if (tile.begin >= tile.document_end) return;
  const int head = static_cast<int>(blockIdx.y);
  const int kv_head = head / shape.group();
  const int64_t stride = shape.qkv_stride();
  const bf16* keys = qkv + shape.KeyHead(kv_head) * shape.dim;
  const bf16* values = qkv + shape.ValueHead(kv_head) * shape.dim;
  const int seen = shape.FirstKey(tile.document_begin, tile.begin);
  const int first_key = tile.document_begin + (seen - tile.document_begin) / kCount * kCount;
  const int end = min(tile.begin + kQueries<kDim>, tile.document_end);
  const int count = (end - first_key + kCount - 1) / kCount;
  const auto start = [&](int index) {
    const int key0 = first_key + index * kCount;
    if (index < count) {
      shared.keys[index % kStages].template Start<kThreads<kDim>>(keys, stride, key0,
                                                                  tile.document_end, shape.dim);
      shared.values[index % kStages].template Start<kThreads<kDim>>(values, stride, key0,
                                                                    tile.document_end, shape.dim);
    }
    CommitTiles();
  };

  shared.queries.template Start<kThreads<kDim>>(qkv + head * shape.dim, stride, tile.begin,
                                                tile.document_end, shape.dim);
  start(0);
  start(1);
  const GroupRows group = RowsOfGroup<kDim>(tile, first_key);
  Rows rows;
  float sums[kDim / 8][4] = {};
  float scores[kCount / 8][4];
  const float scale = shape.scale * kLog2E;
  AwaitTiles<1>();
  if (group.tiles > 0) StartTransposed(scores, shared.queries, group.first, shared.keys[0]);
  AwaitProducts();
  for (int index = 0; index < count; ++index) {
    AwaitTiles<0>();  // the next tile is there, and the one before is no longer read
    start(index + 2);
    if (index >= group.tiles) continue;
    const int key0 = first_key + index * kCount;
    float next[kCount / 8][4];
    if (index + 1 < group.tiles) {
      StartTransposed(next, shared.queries, group.first, shared.keys[(index + 1) % kStages]);
    }
    const bool windowed = shape.window > 0 && key0 <= group.begin + 63 - shape.window;
    if (key0 + kCount - 1 > group.begin || windowed) MaskTile(shape, group.query, key0, scores);
    SoftmaxTile(scores, scale, rows, sums);
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
  float inverse[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = ReduceLanes(rows.sum[half], 4, Sum());
    inverse[half] = 1.0f / sum;
    const int row = group.query + half * 8;
    if (threadIdx.x % 4 == 0 && row < tile.document_end) {
      lse[int64_t{row} * shape.q_heads + head] = rows.max[half] * shape.scale + logf(sum);
    }
  }
  StoreRows(sums, inverse[0], inverse[1], attn + head * shape.dim, shape.attn_stride(),
            group.begin + static_cast<int>(threadIdx.x) / 32 % 4 * 16, tile.document_end, shape.dim,
            false);
}

template <int kDim>
void Launch(CudaLaneContext& context, const AttentionCall& call) {
  constexpr int kShared = SharedBytes<Shared<kDim>>;
  Check(cudaFuncSetAttribute(ForwardKernel<kDim>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             kShared),
        "attention");
  const dim3 grid(Blocks(TileNumbers<kQueries<kDim>>(call.batch), 1), Count32(call.op.q_heads));
  ForwardKernel<kDim><<<grid, kThreads<kDim>, kShared, context.stream()>>>(
      ShapeOf(call), call.qkv.as<const bf16>(), call.attn.as<bf16>(), call.lse.as<float>());
}

}  // namespace

bool TensorCoresTake(const AttentionCall& call) {
  return call.qkv.dtype == DType::kBF16 && call.op.head_dim % 8 == 0 && IsAligned(call.qkv.data) &&
         IsAligned(call.attn.data) && IsAligned(call.d_attn.data) && IsAligned(call.d_qkv.data);
}

void AttentionForwardTensor(CudaLaneContext& context, const AttentionCall& call) {
  if (call.op.head_dim <= 64) {
    Launch<64>(context, call);
  } else if (call.op.head_dim <= 128) {
    Launch<128>(context, call);
  } else {
    Launch<256>(context, call);
  }
  CheckLaunch("attention");
}

}  // namespace lazytrain::cuda
