// What attention kernels know of their problem.
#pragma once

#include <algorithm>

#include "ops/cuda/attention_kernels.h"
#include "ops/cuda/documents.cuh"

namespace lazytrain::cuda {

// Neighbouring tokens. Whether one is among them is asked for every score, hence without branches.
struct TokenSpan {
  int first;
  unsigned count;

  __device__ bool Has(int token) const { return static_cast<unsigned>(token - first) < count; }
};

struct AttentionShape {
  Documents documents;
  int q_heads;
  int kv_heads;
  int dim;
  int window;  // 0: no limit
  float scale;
  bool biased;
  // Where biased: a head's slope in units of a score before it is multiplied by `scale`.
  float ratios[kMaxBiasedHeads];

  __device__ int group() const { return q_heads / kv_heads; }
  // Elements from token to token of qkv, and of attn.
  __device__ int64_t qkv_stride() const { return int64_t{q_heads + 2 * kv_heads} * dim; }
  __device__ int64_t attn_stride() const { return int64_t{q_heads} * dim; }
  // Heads of qkv.
  __device__ int KeyHead(int kv_head) const { return q_heads + kv_head; }
  __device__ int ValueHead(int kv_head) const { return q_heads + kv_heads + kv_head; }

  __device__ float BiasRatio(int head) const { return biased ? ratios[head] : 0.0f; }

  // Whether a query sees a key, both of one document.
  __device__ bool Sees(int query, int key) const {
    return key <= query && (window == 0 || key > query - window);
  }
  // The keys that a query sees, of those from its document's begin on.
  __device__ TokenSpan KeysOf(int query) const {
    const int first = window == 0 ? 0 : query - window + 1;
    return {first, static_cast<unsigned>(query - first + 1)};
  }
  // The queries before a document's end that see a key.
  __device__ TokenSpan QueriesOf(int key, int document_end) const {
    return {key, static_cast<unsigned>(max(0, EndQuery(document_end, key) - key))};
  }
  // The first key that any query from `query` on sees.
  __device__ int FirstKey(int document_begin, int query) const {
    return window == 0 ? document_begin : max(document_begin, query - window + 1);
  }
  // Past the last query that sees a key up to `key`.
  __device__ int EndQuery(int document_end, int key) const {
    return window == 0 ? document_end
                       : static_cast<int>(min(int64_t{document_end}, int64_t{key} + window));
  }
};

inline AttentionShape ShapeOf(const AttentionCall& call) {
  const Attention& op = call.op;
  AttentionShape shape = {DocumentsOf(call.batch),
                          static_cast<int>(op.q_heads),
                          static_cast<int>(op.kv_heads),
                          static_cast<int>(op.head_dim),
                          static_cast<int>(std::min<int64_t>(op.window, INT32_MAX / 2)),
                          op.scale,
                          !op.slopes.empty(),
                          {}};
  for (size_t head = 0; head < op.slopes.size(); ++head) {
    shape.ratios[head] = op.slopes[head] / op.scale;
  }
  return shape;
}

}  // namespace lazytrain::cuda
