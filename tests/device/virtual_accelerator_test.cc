#include "device/cpu/virtual_accelerator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "core/error.h"
#include "core/units.h"
#include "device/cpu/guarded_block.h"

namespace lazytrain {
namespace {

TEST(GuardedBlock, FaultsBeyondItsEnd) {
  GuardedBlock block(3 * kAlignment, false);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block.base()) % kAlignment, 0u);
  std::memset(block.base(), 1, static_cast<size_t>(block.bytes()));
  EXPECT_DEATH(block.base()[block.bytes()] = std::byte{1}, "");
  EXPECT_DEATH(block.base()[-4096] = std::byte{1}, "");
}

TEST(GuardedBlock, ReleasedFloatsAreNaN) {
  GuardedBlock block(kAlignment, true);
  auto* values = reinterpret_cast<float*>(block.base());
  EXPECT_TRUE(std::isnan(values[0]));
  values[3] = 1.0f;
  block.Release(0, kAlignment);
  block.Claim(0, kAlignment);
  EXPECT_TRUE(std::isnan(values[3]));
}

#if !defined(__SANITIZE_ADDRESS__)  // which would end the test at the write itself
TEST(GuardedBlock, WritesToReleasedMemoryAreFound) {
  GuardedBlock block(2 * kAlignment, true);
  block.Release(0, 2 * kAlignment);
  block.base()[kAlignment + 7] = std::byte{1};
  EXPECT_NO_THROW(block.Claim(0, kAlignment));
  EXPECT_THROW(block.Claim(kAlignment, kAlignment), Error);
}
#endif

TEST(GuardedBlock, CountsTouchedPages) {
  GuardedBlock block(RoundUp(1'000'000, kAlignment), false);
  EXPECT_EQ(block.TouchedBytes(), 0);
  block.base()[500'000] = std::byte{1};
  EXPECT_GT(block.TouchedBytes(), 0);
  EXPECT_LE(block.TouchedBytes(), 8192);
}

TEST(VirtualAccelerator, LanesWaitForEvents) {
  const auto device = MakeVirtualAccelerator({});
  const auto a = device->MakeLane(LaneKind::kCompute, "a");
  const auto b = device->MakeLane(LaneKind::kHostToDevice, "b");
  const auto event = device->MakeEvent();
  for (int round = 0; round < 50; ++round) {
    device->Reset(*event);
    std::atomic<int> value{0};
    int seen = -1;
    a->Run(
        [&](LaneContext&) {
          std::this_thread::sleep_for(std::chrono::microseconds(200));
          value = 7;
        },
        {});
    a->Record(*event);
    b->Wait(*event);
    b->Run([&](LaneContext&) { seen = value; }, {});
    device->Synchronize();
    ASSERT_EQ(seen, 7);
  }
}

TEST(VirtualAccelerator, AFailureReachesSynchronizeAndStopsTheOthers) {
  const auto device = MakeVirtualAccelerator({});
  const auto a = device->MakeLane(LaneKind::kCompute, "a");
  const auto b = device->MakeLane(LaneKind::kHost, "b");
  const auto event = device->MakeEvent();
  bool ran = false;
  a->Run([](LaneContext&) { throw std::runtime_error("broken"); }, {});
  a->Record(*event);
  b->Wait(*event);
  b->Run([&](LaneContext&) { ran = true; }, {});
  EXPECT_THROW(device->Synchronize(), std::runtime_error);
  EXPECT_FALSE(ran);
  b->Run([&](LaneContext&) { ran = true; }, {});
  device->Synchronize();
  EXPECT_TRUE(ran);
}

TEST(VirtualAccelerator, TheVirtualClockAddsUpDemands) {
  VirtualAcceleratorOptions options;
  options.clock = ClockMode::kVirtual;
  options.host_bytes_per_second = 10;
  const auto device = MakeVirtualAccelerator(options);
  const auto a = device->MakeLane(LaneKind::kCompute, "a");
  const auto b = device->MakeLane(LaneKind::kHostToDevice, "b");
  const auto done_a = device->MakeEvent();
  const auto start_b = device->MakeEvent();
  const auto done_b = device->MakeEvent();
  for (int round = 0; round < 2; ++round) {
    for (const auto& event : {done_a.get(), start_b.get(), done_b.get()}) device->Reset(*event);
    a->Run([](LaneContext&) {}, {3.0, 0});
    a->Record(*done_a);
    b->Wait(*done_a);
    b->Record(*start_b);
    b->Run([](LaneContext&) {}, {2.0, 40});  // 40 bytes at 10 a second: twice its own time
    b->Record(*done_b);
    device->Synchronize();
    const double begin = round * 7.0;
    EXPECT_DOUBLE_EQ(done_a->seconds(), begin + 3.0);
    EXPECT_DOUBLE_EQ(start_b->seconds(), begin + 3.0);
    EXPECT_DOUBLE_EQ(done_b->seconds(), begin + 7.0);
  }
}

TEST(VirtualAccelerator, TheThrottleTakesTheTimeDemanded) {
  VirtualAcceleratorOptions options;
  options.clock = ClockMode::kThrottle;
  options.host_bytes_per_second = 1e9;
  const auto device = MakeVirtualAccelerator(options);
  const auto a = device->MakeLane(LaneKind::kHostToDevice, "a");
  const auto b = device->MakeLane(LaneKind::kDeviceToHost, "b");
  const auto begin = std::chrono::steady_clock::now();
  // Each wants the whole host bandwidth for 50 ms: together 100 ms.
  a->Run([](LaneContext&) {}, {0.05, 50'000'000});
  b->Run([](LaneContext&) {}, {0.05, 50'000'000});
  device->Synchronize();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_GE(seconds, 0.099);
  EXPECT_LE(seconds, 0.5);
}

}  // namespace
}  // namespace lazytrain
