// The documents of a micro-batch, on the device.
#pragma once

#include <cstdint>

#include "ops/kernel.h"

namespace lazytrain::cuda {

struct Documents {
  const int32_t* cu_seqlens;  // count + 1 entries
  int count;

  // The document of a token, or `count` behind the last one.
  __device__ int Find(int64_t token) const {
    int low = 0;
    int high = count;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (cu_seqlens[middle + 1] <= token) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  // Tokens of the document that a token is in; 0 behind the last one.
  __device__ int64_t LengthAt(int64_t token) const {
    const int document = Find(token);
    return document < count ? cu_seqlens[document + 1] - cu_seqlens[document] : 0;
  }
};

// Tiles of kTile rows, none across documents. Document d has the numbers from
// cu_seqlens[d] / kTile + d on, so that a tile finds its document by bisection instead of a list;
// some numbers name nothing.
template <int kTile>
struct DocumentTiles {
  Documents documents;

  struct Tile {
    int document_begin;
    int document_end;
    int begin;  // first row; document_end or more: there is no such tile
  };

  __device__ int First(int document) const {
    return documents.cu_seqlens[document] / kTile + document;
  }

  __device__ Tile At(int number) const {
    int low = 0;
    int high = documents.count - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (First(middle) <= number) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    const int begin = documents.cu_seqlens[low];
    return {begin, documents.cu_seqlens[low + 1], begin + (number - First(low)) * kTile};
  }
};

// Numbers of tiles that a micro-batch has.
template <int kTile>
int64_t TileNumbers(const BatchLayout& batch) {
  return batch.rows.tokens / kTile + batch.rows.documents;
}

inline Documents DocumentsOf(const BatchLayout& batch) {
  return {batch.cu_seqlens_device, static_cast<int>(batch.rows.documents)};
}

}  // namespace lazytrain::cuda
