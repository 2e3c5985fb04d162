#include "ops/cuda/tensor_map.h"

#include <cuda_runtime_api.h>

#include "core/error.h"
#include "device/cuda/cuda_error.h"

namespace lazytrain::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// Found at run time, as everything of the driver's is.
Encode FindEncode() {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  Check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &address, 12000,
                                         cudaEnableDefault, &result),
        "looking for cuTensorMapEncodeTiled");
  if (result != cudaDriverEntryPointSuccess) {
    throw RunError("the NVIDIA driver has no cuTensorMapEncodeTiled; install driver 580 or newer");
  }
  return reinterpret_cast<Encode>(address);
}

}  // namespace

CUtensorMap MapOfHeads(const TensorView& view, int64_t head_dim) {
  static const Encode encode = FindEncode();
  const cuuint64_t dims[3] = {static_cast<cuuint64_t>(head_dim),
                              static_cast<cuuint64_t>(view.cols / head_dim),
                              static_cast<cuuint64_t>(view.rows)};
  const auto element = static_cast<cuuint64_t>(SizeOf(DType::kBF16));
  const cuuint64_t strides[2] = {dims[0] * element, dims[0] * dims[1] * element};
  const cuuint32_t box[3] = {64, 1, 64};
  const cuuint32_t steps[3] = {1, 1, 1};
  CUtensorMap map;
  const CUresult status =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, view.data, dims, strides, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    throw InternalError("the driver refuses a tensor map of [{}, {}, {}]: error {}", view.rows,
                        dims[1], head_dim, static_cast<int>(status));
  }
  return map;
}

}  // namespace lazytrain::cuda
