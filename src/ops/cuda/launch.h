// What the host side of kernels shares.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "core/dtype.h"
#include "core/tensor.h"
#include "core/units.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_lane_context.h"
#include "device/device.h"

namespace lazytrain::cuda {

inline CudaLaneContext& Cuda(LaneContext& context) {
  return static_cast<CudaLaneContext&>(context);
}

// Calls body(element) with a value of the element type: float or __nv_bfloat16.
template <typename Body>
void WithElementType(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kF32:
      return body(float{});
    case DType::kBF16:
      return body(__nv_bfloat16{});
    default:
      FailInternally("a CUDA kernel was given " + std::string(Name(dtype)) + " values");
  }
}

// Whether 16-byte accesses at this address are allowed.
inline bool IsAligned(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % 16 == 0;
}

// Blocks of a grid's first dimension; the others hold 65535 only.
inline unsigned Blocks(int64_t work, int64_t per_block) {
  const int64_t blocks = CeilDiv(work, per_block);
  if (blocks > INT32_MAX)
    FailInternally("a kernel launch of " + std::to_string(blocks) + " blocks");
  return static_cast<unsigned>(blocks);
}

// Kernels divide by 32-bit numbers: 64-bit division costs more than their other work.
inline uint32_t Count32(int64_t count) {
  if (count > UINT32_MAX) FailInternally("a kernel over " + std::to_string(count) + " items");
  return static_cast<uint32_t>(count);
}

// Lets a kernel's blocks have `bytes` of shared memory; throws Error where the GPU has less.
template <typename Kernel>
void AllowShared(const CudaLaneContext& context, Kernel kernel, int bytes, std::string_view what) {
  if (bytes > context.gpu().shared_a_block) {
    RefuseShared(what, bytes, context.gpu().shared_a_block);
  }
  Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), what);
}

// Launches a kernel whose blocks may come in while those of the kernel before it end, as far as the
// GPU knows how to (sm_90 and newer). It calls AwaitKernelBefore before all else.
template <typename... Parameters, typename... Args>
void LaunchEarly(const CudaLaneContext& context, void (*kernel)(Parameters...), dim3 grid,
                 dim3 block, const Args&... args) {
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = context.stream();
  config.attrs = &early;
  config.numAttrs = context.gpu().architecture >= 90 ? 1 : 0;
  Check(cudaLaunchKernelEx(&config, kernel, args...), "launching a kernel");
}

// Calls launch(width), an integral_constant: the elements of a 16-byte access where rows of `cols`
// elements at these addresses allow it, else 1.
template <typename T, typename Launch>
void WithWidth(int64_t cols, bool aligned, const Launch& launch) {
  constexpr int kWidth = 16 / static_cast<int>(sizeof(T));
  if (cols % kWidth == 0 && aligned) {
    launch(std::integral_constant<int, kWidth>());
  } else {
    launch(std::integral_constant<int, 1>());
  }
}

}  // namespace lazytrain::cuda
