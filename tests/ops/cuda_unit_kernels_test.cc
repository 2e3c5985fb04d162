// Unit kernels against the host's: the same bits, except for the order of a partial sum's terms.
#include <cmath>
#include <cstring>

#include "ops/cpu/unit_kernels.h"
#include "ops/cuda/unit_kernels.h"
#include "tests/ops/cuda_harness.h"

namespace lazytrain::testing {
namespace {

// Sizes around vectors and chunks; padding between parameters is never touched.
std::vector<UnitParameter> MakeParameters(DType dtype) {
  std::vector<UnitParameter> parameters;
  int64_t elements = 0;
  int64_t bytes = 0;
  bool decays = false;
  for (const int64_t size : {int64_t{1}, int64_t{7}, int64_t{8}, int64_t{1000}, kNormChunk,
                             kNormChunk + 1, 3 * kNormChunk - 5}) {
    parameters.push_back({size, elements, bytes, dtype, decays});
    elements = RoundUp(elements + size, kAlignment);
    bytes = RoundUp(bytes + size * SizeOf(dtype), kAlignment);
    decays = !decays;
  }
  return parameters;
}

int64_t Elements(const std::vector<UnitParameter>& parameters) {
  return RoundUp(parameters.back().element_offset + parameters.back().elements, kAlignment);
}

// Values of every magnitude, with zeros, subnormal numbers and infinities.
Buffer Wild(int64_t count, std::mt19937& random) {
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) {
    value = std::ldexp(1.0 + static_cast<double>(random() % 1000003) / 1000003.0,
                       static_cast<int>(random() % 60) - 40);
    if (random() % 2 == 0) value = -value;
    if (random() % 50 == 0) value = 0.0;
    if (random() % 100 == 0) value = 1e-40;
  }
  return Buffer::Of(DType::kF32, 1, count, values);
}

template <typename Args>
using KernelOf = void (*)(const Args&, LaneContext&);

template <typename Args>
void OnGpu(KernelOf<Args> kernel, const Args& args) {
  Gpu::AwaitPlaced();
  TheGpu().lane().Run([&](LaneContext& context) { kernel(args, context); }, {});
  TheGpu().Fetch();
}

template <typename Args>
void OnHost(KernelOf<Args> kernel, const Args& args) {
  ThreadPool pool(2);
  CpuLaneContext context(pool);
  kernel(args, context);
}

TEST(CudaUnitKernels, RoundGradientGivesTheHostsBits) {
  std::mt19937 random(4);
  const std::vector<UnitParameter> parameters = MakeParameters(DType::kBF16);
  const int64_t elements = Elements(parameters);
  const int64_t sums = PartialSumCount(parameters);
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const bool in_place : {false, true}) {
      Buffer accumulator = Wild(elements, random);
      Buffer there = accumulator;
      Buffer stored[2] = {Buffer(dtype, 1, elements), Buffer(dtype, 1, elements)};
      Buffer partial[2] = {Buffer(DType::kU8, 8, sums), Buffer(DType::kU8, 8, sums)};
      RoundGradientArgs args;
      args.parameters = &parameters;
      args.dtype = dtype;
      args.in_place = in_place;
      args.accumulator = accumulator.view().as<float>();
      args.stored = in_place ? args.accumulator : stored[0].view().data;
      args.partial_sums = partial[0].view().as<double>();
      OnHost(cpu::HostKernels().round_gradient, args);

      TheGpu().Clear();
      args.accumulator = TheGpu().Place(there).as<float>();
      args.stored = in_place ? args.accumulator : TheGpu().Place(stored[1]).data;
      args.partial_sums = TheGpu().Place(partial[1]).as<double>();
      OnGpu(cuda::DeviceKernels().round_gradient, args);
      EXPECT_TRUE(accumulator.SameBits(there));
      EXPECT_TRUE(stored[0].SameBits(stored[1]));
      for (int64_t i = 0; i < sums; ++i) {
        const double host = partial[0].view().as<double>()[i];
        EXPECT_NEAR(partial[1].view().as<double>()[i], host, 1e-13 * host) << i;
      }
    }
  }
}

TEST(CudaUnitKernels, NaNKeepsItsBits) {
  std::vector<UnitParameter> parameters = {{64, 0, 0, DType::kBF16, false}};
  Buffer accumulator(DType::kF32, 1, 64);  // NaN
  auto* bits = reinterpret_cast<uint32_t*>(accumulator.view().data);
  for (uint32_t i = 0; i < 64; ++i) bits[i] = (i % 2 == 0 ? 0x7f800001u : 0xffc00000u) + i;
  Buffer there = accumulator;
  Buffer stored[2] = {Buffer(DType::kBF16, 1, 64), Buffer(DType::kBF16, 1, 64)};
  RoundGradientArgs args;
  args.parameters = &parameters;
  args.dtype = DType::kBF16;
  args.accumulator = accumulator.view().as<float>();
  args.stored = stored[0].view().data;
  OnHost(cpu::HostKernels().round_gradient, args);
  TheGpu().Clear();
  args.accumulator = TheGpu().Place(there).as<float>();
  args.stored = TheGpu().Place(stored[1]).data;
  OnGpu(cuda::DeviceKernels().round_gradient, args);
  EXPECT_TRUE(stored[0].SameBits(stored[1]));
}

TEST(CudaUnitKernels, WidenGradientGivesTheHostsBits) {
  std::mt19937 random(5);
  const std::vector<UnitParameter> parameters = MakeParameters(DType::kBF16);
  const int64_t elements = Elements(parameters);
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const bool add : {false, true}) {
      Buffer stored = Buffer::Random(dtype, 1, elements, random);
      Buffer accumulator = Wild(elements, random);
      Buffer there = accumulator;
      WidenGradientArgs args;
      args.parameters = &parameters;
      args.dtype = dtype;
      args.add = add;
      args.accumulator = accumulator.view().as<float>();
      args.stored = stored.view().data;
      OnHost(cpu::HostKernels().widen_gradient, args);
      TheGpu().Clear();
      args.accumulator = TheGpu().Place(there).as<float>();
      args.stored = TheGpu().Place(stored).data;
      OnGpu(cuda::DeviceKernels().widen_gradient, args);
      EXPECT_TRUE(accumulator.SameBits(there));
    }
  }
}

// The state of a unit under AdamW.
struct State {
  Buffer weights;
  Buffer low;
  Buffer moment1;
  Buffer moment2;
};

TEST(CudaUnitKernels, AdamWGivesTheHostsBits) {
  std::mt19937 random(6);
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const DType gradient_dtype : {DType::kBF16, DType::kF32}) {
      const std::vector<UnitParameter> parameters = MakeParameters(dtype);
      const int64_t elements = Elements(parameters);
      State host = {Buffer::Random(dtype, 1, elements, random),
                    Buffer::Of(DType::kI32, 1, elements, std::vector<double>(elements, 0.0)),
                    Buffer::Of(DType::kF32, 1, elements, std::vector<double>(elements, 0.0)),
                    Buffer::Of(DType::kF32, 1, elements, std::vector<double>(elements, 0.0))};
      State there = host;
      AdamWArgs args;
      args.parameters = &parameters;
      args.gradient_dtype = gradient_dtype;
      for (int step = 1; step <= 5; ++step) {
        Buffer gradient =
            Buffer::Random(gradient_dtype, 1, elements, random, step == 3 ? 1e-20 : 1.0);
        args.scalars.clip_factor = 0.7f;
        args.scalars.decay = 0.9999f;
        args.scalars.step_size = 1e-2f / static_cast<float>(step);
        args.scalars.root_bias_correction2 = std::sqrt(0.001f * static_cast<float>(step));
        const auto set = [&](const auto& place, State& state) {
          args.weights = static_cast<std::byte*>(place(state.weights));
          args.master_low =
              dtype == DType::kBF16 ? static_cast<int16_t*>(place(state.low)) : nullptr;
          args.moment1 = static_cast<float*>(place(state.moment1));
          args.moment2 = static_cast<float*>(place(state.moment2));
          args.gradient = place(gradient);
        };
        set([](Buffer& buffer) { return buffer.view().data; }, host);
        OnHost(cpu::HostKernels().adamw, args);
        TheGpu().Clear();
        set([](Buffer& buffer) { return TheGpu().Place(buffer).data; }, there);
        OnGpu(cuda::DeviceKernels().adamw, args);
        EXPECT_TRUE(host.weights.SameBits(there.weights)) << "step " << step;
        EXPECT_TRUE(host.low.SameBits(there.low)) << "step " << step;
        EXPECT_TRUE(host.moment1.SameBits(there.moment1)) << "step " << step;
        EXPECT_TRUE(host.moment2.SameBits(there.moment2)) << "step " << step;
      }
    }
  }
}

}  // namespace
}  // namespace lazytrain::testing
