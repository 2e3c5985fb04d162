// Forward attention on the tensor cores (Dao 2023): a block takes 64 queries of a head, a warp 16
// of them; keys and values pass through shared memory, the next tile on its way while one is used.
#include "ops/cuda/attention_mma.cuh"
#include "ops/cuda/attention_shape.cuh"
#include "ops/cuda/reduce.cuh"

namespace lazytrain::cuda {
namespace {

constexpr int kQueries = 64;
constexpr int kKeys = 64;
constexpr int kThreads = 128;
constexpr int kBlocks = kKeys / 8;
constexpr float kLog2E = 1.44269504088896341f;

template <int kDim>
struct Shared {
  bf16 queries[kQueries * kTileStride<kDim>];
  bf16 keys[2][kKeys * kTileStride<kDim>];
  bf16 values[2][kKeys * kTileStride<kDim>];
};

// Statistics of a lane's two rows; scores are in units of log2.
struct Rows {
  float max[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0.0f, 0.0f};  // of the lane's own columns
};

// Scores become probabilities relative to the new maxima; earlier sums follow them.
template <int kDim>
__device__ inline void SoftmaxTile(float (&scores)[kBlocks][4], float scale, Rows& rows,
                                   float (&sums)[kDim / 8][4]) {
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
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      sums[n][2 * half] *= shrink;
      sums[n][2 * half + 1] *= shrink;
    }
  }
}

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

template <int kDim>
__global__ void __launch_bounds__(kThreads)
    ForwardKernel(const AttentionShape shape, const bf16* qkv, bf16* attn, float* lse) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto& shared = *reinterpret_cast<Shared<kDim>*>(memory);
  const DocumentTiles<kQueries> tiles{shape.documents};
  const auto tile = tiles.At(static_cast<int>(gridDim.x - 1 - blockIdx.x));
  if (tile.begin >= tile.document_end) return;
  const int head = static_cast<int>(blockIdx.y);
  const int kv_head = head / shape.group();
  const int64_t stride = shape.qkv_stride();
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int query = tile.begin + warp_row + lane / 4;
  const bf16* keys = qkv + shape.KeyHead(kv_head) * shape.dim;
  const bf16* values = qkv + shape.ValueHead(kv_head) * shape.dim;
  const auto start = [&](int key0, int stage) {
    StartTile<kDim, kKeys, kThreads>(shared.keys[stage], keys, stride, key0, tile.document_end,
                                     shape.dim);
    StartTile<kDim, kKeys, kThreads>(shared.values[stage], values, stride, key0, tile.document_end,
                                     shape.dim);
    CommitTiles();
  };

  const int first = shape.FirstKey(tile.document_begin, tile.begin);
  const int end = min(tile.begin + kQueries, tile.document_end);
  int key0 = tile.document_begin + (first - tile.document_begin) / kKeys * kKeys;
  StartTile<kDim, kQueries, kThreads>(shared.queries, qkv + head * shape.dim, stride, tile.begin,
                                      tile.document_end, shape.dim);
  start(key0, 0);
  Rows rows;
  float sums[kDim / 8][4] = {};
  const float scale = shape.scale * kLog2E;
  for (int stage = 0; key0 < end; key0 += kKeys, stage ^= 1) {
    AwaitTiles<0>();
    __syncthreads();  // the tile is there, and the one before is no longer read
    if (key0 + kKeys < end) start(key0 + kKeys, stage ^ 1);
    float scores[kBlocks][4];
    MultiplyTransposed<kDim>(scores, shared.queries, warp_row, shared.keys[stage]);
    const bool windowed = shape.window > 0 && key0 <= tile.begin + kQueries - 1 - shape.window;
    if (key0 + kKeys - 1 > tile.begin || windowed) MaskTile(shape, query, key0, scores);
    SoftmaxTile<kDim>(scores, scale, rows, sums);
    AddProduct<kDim>(sums, scores, shared.values[stage]);
  }
  float inverse[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = ReduceLanes(rows.sum[half], 4, Sum());
    inverse[half] = 1.0f / sum;
    const int row = query + half * 8;
    if (lane % 4 == 0 && row < tile.document_end) {
      lse[int64_t{row} * shape.q_heads + head] = rows.max[half] * shape.scale + logf(sum);
    }
  }
  StoreRows<kDim>(sums, inverse[0], inverse[1], attn + head * shape.dim, shape.attn_stride(),
                  tile.begin + warp_row, tile.document_end, shape.dim, false);
}

template <int kDim>
void Launch(CudaLaneContext& context, const AttentionCall& call) {
  constexpr int kShared = sizeof(Shared<kDim>);
  Check(cudaFuncSetAttribute(ForwardKernel<kDim>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             kShared),
        "attention");
  const dim3 grid(Blocks(TileNumbers<kQueries>(call.batch), 1), Count32(call.op.q_heads));
  ForwardKernel<kDim><<<grid, kThreads, kShared, context.stream()>>>(
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
