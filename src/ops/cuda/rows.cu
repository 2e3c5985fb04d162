#include <algorithm>

#include "ops/cuda/launch.h"
#include "ops/cuda/rows.h"
#include "ops/cuda/vectors.cuh"

namespace lazytrain::cuda {
namespace {

constexpr int kThreads = 256;

template <typename From, typename To, int N>
__global__ void AddRowsKernel(const From* from, int64_t size, bool accumulate, To* to) {
  const int64_t i = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * N;
  if (i >= size) return;
  const auto source = Vec<From, N>::Load(from + i);
  float values[N];
#pragma unroll
  for (int k = 0; k < N; ++k) values[k] = AsFloat(source.at[k]);
  PutVec<To, N>(to + i, values, accumulate);
}

// N neighbours of a row's columns [first, cols).
template <typename T, int N>
__global__ void AddColumnsKernel(const T* from, uint32_t count, uint32_t first, uint32_t cols,
                                 bool accumulate, T* to) {
  const uint32_t vector = blockIdx.x * kThreads + threadIdx.x;
  if (vector >= count) return;
  const uint32_t a_row = (cols - first) / N;
  const uint32_t row = vector / a_row;
  const int64_t at = int64_t{row} * cols + first + (vector - row * a_row) * N;
  const auto source = Vec<T, N>::Load(from + at);
  float values[N];
#pragma unroll
  for (int k = 0; k < N; ++k) values[k] = AsFloat(source.at[k]);
  PutVec<T, N>(to + at, values, accumulate);
}

template <typename T>
__global__ void AddToEveryRowKernel(const T* bias, int64_t size, int64_t cols, float* y) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < size) y[i] += AsFloat(bias[i % cols]);
}

// What SumPartialRowsKernel adds up: blockIdx.y says which.
constexpr int kMostSums = 2;
struct SumsOf {
  struct {
    const float* rows;
    int64_t count;
    int64_t cols;
    bool accumulate;
    float* target;
  } at[kMostSums];
};

// Of a kernel that LaunchEarly starts: until the one before has ended and what it wrote can be
// read.
__device__ inline void AwaitKernelBefore() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// A block of 32 columns by kSumGroups threads, each of which adds every kSumGroups-th row.
constexpr int kSumGroups = 32;

__global__ void __launch_bounds__(32 * kSumGroups)
    SumPartialRowsKernel(const __grid_constant__ SumsOf all, int64_t stride) {
  AwaitKernelBefore();
  __shared__ float sums[kSumGroups][32];
  const auto& of = all.at[blockIdx.y];
  const int64_t col = int64_t{blockIdx.x} * 32 + threadIdx.x;
  float sum = 0.0f;
  if (col < of.cols) {
#pragma unroll 4
    for (int64_t row = threadIdx.y; row < of.count; row += kSumGroups) {
      sum += of.rows[row * stride + col];
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || col >= of.cols) return;
  for (int g = 1; g < kSumGroups; ++g) sum += sums[g][threadIdx.x];
  of.target[col] = of.accumulate ? of.target[col] + sum : sum;
}

// Rows that a block of the next kernel adds up side by side.
constexpr int kGroups = 8;

// A block of 32 N columns by kColumnSumRows rows.
template <typename T, int N>
__global__ void ColumnSumsKernel(const T* x, int64_t rows, int64_t cols, float* partials) {
  __shared__ float sums[kGroups][32][N + 1];
  const int64_t col = (int64_t{blockIdx.x} * 32 + threadIdx.x) * N;
  const int64_t begin = int64_t{blockIdx.y} * kColumnSumRows;
  const int64_t end = min(rows, begin + kColumnSumRows);
  float sum[N] = {};
  if (col < cols) {
#pragma unroll 4
    for (int64_t row = begin + threadIdx.y; row < end; row += kGroups) {
      const auto values = Vec<T, N>::Load(x + row * cols + col);
#pragma unroll
      for (int k = 0; k < N; ++k) sum[k] += AsFloat(values.at[k]);
    }
  }
  for (int k = 0; k < N; ++k) sums[threadIdx.y][threadIdx.x][k] = sum[k];
  __syncthreads();
  if (threadIdx.y != 0 || col >= cols) return;
  for (int k = 0; k < N; ++k) {
    for (int g = 1; g < kGroups; ++g) sum[k] += sums[g][threadIdx.x][k];
    partials[blockIdx.y * cols + col + k] = sum[k];
  }
}

}  // namespace

void Zero(CudaLaneContext& context, const TensorView& view) {
  if (!view.present() || view.size() == 0) return;
  Check(cudaMemsetAsync(view.data, 0, static_cast<size_t>(view.bytes()), context.stream()),
        "zeroing a matrix");
}

void AddRows(CudaLaneContext& context, const TensorView& from, bool accumulate,
             const TensorView& to) {
  const int64_t size = from.size();
  if (size == 0) return;
  WithElementType(from.dtype, [&](auto from_element) {
    using From = decltype(from_element);
    WithElementType(to.dtype, [&](auto to_element) {
      using To = decltype(to_element);
      const auto launch = [&](auto width) {
        constexpr int kWidth = decltype(width)::value;
        AddRowsKernel<From, To, kWidth>
            <<<Blocks(size, int64_t{kThreads} * kWidth), kThreads, 0, context.stream()>>>(
                from.as<const From>(), size, accumulate, to.as<To>());
      };
      if (size % 8 == 0 && IsAligned(from.data) && IsAligned(to.data)) {
        launch(std::integral_constant<int, 8>());
      } else {
        launch(std::integral_constant<int, 1>());
      }
    });
  });
  CheckLaunch("adding rows");
}

void AddColumns(CudaLaneContext& context, const TensorView& from, int64_t first, bool accumulate,
                const TensorView& to) {
  if (from.rows == 0 || first == from.cols) return;
  WithElementType(from.dtype, [&](auto element) {
    using T = decltype(element);
    constexpr int64_t kElements = 16 / sizeof(T);
    const bool aligned = IsAligned(from.data) && IsAligned(to.data) && first % kElements == 0;
    WithWidth<T>(from.cols, aligned, [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      const uint32_t count = Count32(from.rows * (from.cols - first) / kWidth);
      AddColumnsKernel<T, kWidth><<<Blocks(count, kThreads), kThreads, 0, context.stream()>>>(
          from.as<const T>(), count, Count32(first), Count32(from.cols), accumulate, to.as<T>());
    });
  });
  CheckLaunch("adding columns");
}

void AddToEveryRow(CudaLaneContext& context, const TensorView& bias, const TensorView& y) {
  if (y.size() == 0) return;
  WithElementType(bias.dtype, [&](auto element) {
    using T = decltype(element);
    AddToEveryRowKernel<T><<<Blocks(y.size(), kThreads), kThreads, 0, context.stream()>>>(
        bias.as<const T>(), y.size(), y.cols, y.as<float>());
  });
  CheckLaunch("adding a bias");
}

void SumPartialRows(CudaLaneContext& context, int64_t stride,
                    std::initializer_list<PartialSums> sums) {
  SumsOf all = {};
  int64_t cols = 0;
  unsigned count = 0;
  for (const PartialSums& sum : sums) {
    if (!sum.target.present() || sum.target.size() == 0) continue;
    if (count == kMostSums) FailInternally("more sums than a kernel takes");
    all.at[count++] = {sum.rows, sum.count, sum.target.size(), sum.accumulate,
                       sum.target.as<float>()};
    cols = std::max(cols, sum.target.size());
  }
  if (count == 0) return;
  LaunchEarly(context, SumPartialRowsKernel, dim3(Blocks(cols, 32), count), dim3(32, kSumGroups),
              all, stride);
  CheckLaunch("adding partial sums");
}

int64_t ColumnSumsWorkspace(int64_t rows, int64_t cols) {
  return CeilDiv(rows, kColumnSumRows) * cols * SizeOf(DType::kF32);
}

void ColumnSums(CudaLaneContext& context, const TensorView& x, bool accumulate,
                const TensorView& target, void* workspace) {
  auto* partials = static_cast<float*>(workspace);
  const int64_t blocks = CeilDiv(x.rows, kColumnSumRows);
  if (blocks > 65535) FailInternally("column sums of " + std::to_string(x.rows) + " rows");
  WithElementType(x.dtype, [&](auto element) {
    using T = decltype(element);
    const auto launch = [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      const dim3 grid(Blocks(x.cols, 32 * kWidth), static_cast<unsigned>(blocks));
      ColumnSumsKernel<T, kWidth><<<grid, dim3(32, kGroups), 0, context.stream()>>>(
          x.as<const T>(), x.rows, x.cols, partials);
    };
    if (blocks > 0 && x.cols > 0) WithWidth<T>(x.cols, IsAligned(x.data), launch);
  });
  CheckLaunch("adding up columns");
  SumPartialRows(context, x.cols, {{partials, blocks, accumulate, target}});
}

}  // namespace lazytrain::cuda
