#include "ops/cuda/device_faults.cuh"
#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/vectors.cuh"
#include "ops/gather_rows.h"

namespace lazytrain::cuda {
namespace {

constexpr int kThreads = 128;

// A block a selected row.
template <typename T, int N>
__global__ void ForwardKernel(const T* x, const int32_t* selected, int64_t rows, int64_t cols,
                              DeviceFault* fault, T* y) {
  const int64_t from = selected[blockIdx.x];
  if (from < 0 || from >= rows) {
    Report(Fault::kRowOutside, from, rows, fault);
    return;
  }
  for (int64_t col = int64_t{threadIdx.x} * N; col < cols; col += int64_t{kThreads} * N) {
    Vec<T, N>::Load(x + from * cols + col).Store(y + blockIdx.x * cols + col);
  }
}

}  // namespace

void GatherRowsForward(const Op& /*op*/, const OpArgs& args, LaneContext& context) {
  const TensorView& x = args.inputs[0];
  const TensorView& y = args.outputs[0];
  if (y.rows == 0) return;
  WithElementType(x.dtype, [&](auto element) {
    using T = decltype(element);
    WithWidth<T>(x.cols, IsAligned(x.data) && IsAligned(y.data), [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      ForwardKernel<T, kWidth><<<Blocks(y.rows, 1), kThreads, 0, Cuda(context).stream()>>>(
          x.as<const T>(), args.inputs[1].as<const int32_t>(), x.rows, x.cols,
          Cuda(context).fault(), y.as<T>());
    });
  });
  CheckLaunch("gather_rows");
}

}  // namespace lazytrain::cuda
