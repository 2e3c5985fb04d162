// Which queries a block of an attention kernel has, and what a lane knows of its own.
#pragma once

#include "ops/cuda/attention_softmax.cuh"

namespace lazytrain::cuda {

// A tile of up to kRows queries of one head, and the tiles of kKeys keys that they see.
template <int kRows, int kKeys>
struct QueryWork {
  int head;
  int kv_head;
  int begin;         // of the queries
  int end;           // of them
  int document_end;  // no earlier
  int first_key;
  int tiles;  // of keys

  __device__ int Key(int index) const { return first_key + index * kKeys; }
};

// Of a block whose x is a tile of queries and whose y a query head: the last tiles, which see the
// most, first. No queries (begin >= document_end) where there is no such tile.
template <int kRows, int kKeys>
__device__ inline QueryWork<kRows, kKeys> QueryWorkOf(const AttentionShape& shape) {
  const DocumentTiles<kRows> all_tiles{shape.documents};
  const auto tile = all_tiles.At(static_cast<int>(gridDim.x - 1 - blockIdx.x));
  QueryWork<kRows, kKeys> work;
  work.head = static_cast<int>(blockIdx.y);
  work.kv_head = work.head / shape.group();
  work.begin = tile.begin;
  work.end = min(tile.begin + kRows, tile.document_end);
  work.document_end = tile.document_end;
  const int seen = shape.FirstKey(tile.document_begin, tile.begin);
  work.first_key = tile.document_begin + (seen - tile.document_begin) / kKeys * kKeys;
  work.tiles = (work.end - work.first_key + kKeys - 1) / kKeys;
  return work;
}

// A thread's place: its warpgroup's first row in the block's tile, its warp's, and its upper row.
__device__ inline int GroupRow() { return WarpgroupOfBlock() * 64; }
__device__ inline int WarpRow() { return static_cast<int>(threadIdx.x) / 32 * 16; }
__device__ inline int LaneRow() { return WarpRow() + static_cast<int>(threadIdx.x) % 32 / 4; }

// What a lane knows of its two rows in backward.
struct QueryRows {
  int query;     // the upper one; the other is 8 further
  float lse[2];  // in powers of two
  float delta[2];
};

__device__ inline QueryRows LoadRows(const float* lse, const float* delta, int q_heads, int query,
                                     int end, int head) {
  QueryRows rows;
  rows.query = query;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = query + half * 8;
    const int64_t statistic = int64_t{row} * q_heads + head;
    rows.lse[half] = row < end ? lse[statistic] * kLog2E : 0.0f;
    rows.delta[half] = row < end ? delta[statistic] : 0.0f;
  }
  return rows;
}

}  // namespace lazytrain::cuda
