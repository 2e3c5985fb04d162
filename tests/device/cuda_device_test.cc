#include "device/cuda/cuda_device.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <stdexcept>
#include <thread>

#include "core/error.h"
#include "core/units.h"
#include "device/cuda/cuda_error.h"
#include "device/cuda/cuda_lane_context.h"

namespace lazytrain::cuda {
namespace {

std::unique_ptr<Device> Open() { return MakeCudaDevice({}); }

// Fills device memory with a byte, as a kernel would.
void Fill(Lane& lane, std::byte* target, int value, int64_t bytes) {
  lane.Run(
      [=](LaneContext& context) {
        Check(cudaMemsetAsync(target, value, static_cast<size_t>(bytes),
                              static_cast<CudaLaneContext&>(context).stream()),
              "fill");
      },
      {});
}

TEST(CudaDevice, SaysWhatItIs) {
  const auto device = Open();
  EXPECT_EQ(device->backend(), "cuda");
  EXPECT_FALSE(device->description().empty());
  EXPECT_FALSE(device->models_time());
}

TEST(CudaDevice, RefusesAnIndexThatIsNotThere) {
  try {
    MakeCudaDevice({.index = 99});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("device 'cuda:99'"));
  }
}

TEST(CudaDevice, MemoryThatIsNotThereIsRefusedWithARemedy) {
  const auto device = Open();
  try {
    device->AllocateDevice(int64_t{1} << 50);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("lower memory.device_memory_gb"));
  }
  EXPECT_NE(device->AllocateDevice(kAlignment)->base(), nullptr);  // and nothing is broken
}

TEST(CudaDevice, TheDriverReportsTheArena) {
  const auto device = Open();
  const int64_t before = device->UsedBytes();
  const int64_t bytes = int64_t{1} << 30;
  const auto block = device->AllocateDevice(bytes);
  EXPECT_EQ(block->bytes(), bytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block->base()) % kAlignment, 0u);
  EXPECT_GE(device->UsedBytes() - before, bytes);
  EXPECT_LT(device->UsedBytes() - before, bytes + (int64_t{64} << 20));
}

TEST(CudaDevice, TablesOfPinnedMemoryAreForeseen) {
  const auto device = Open();
  const int64_t bytes = int64_t{8} << 30;
  const int64_t foreseen = device->UsedBytesWith(bytes);
  const int64_t before = device->UsedBytes();
  const auto host = device->AllocateHost(bytes);
  EXPECT_LE(device->UsedBytes(), foreseen);
  EXPECT_GE(device->UsedBytes(), foreseen - (int64_t{8} << 20));
  EXPECT_GT(device->UsedBytes(), before);
  EXPECT_EQ(device->UsedBytesWith(bytes), device->UsedBytes());  // they are there by now
}

TEST(CudaDevice, CopiesGoAndComeBack) {
  const auto device = Open();
  const int64_t bytes = 8'000'000 / kAlignment * kAlignment;
  const auto host = device->AllocateHost(2 * bytes);
  const auto arena = device->AllocateDevice(bytes);
  const auto up = device->MakeLane(LaneKind::kHostToDevice, "h2d");
  const auto down = device->MakeLane(LaneKind::kDeviceToHost, "d2h");
  const auto event = device->MakeEvent();
  for (int64_t i = 0; i < bytes; ++i) host->base()[i] = static_cast<std::byte>(i * 7 % 251);
  up->Copy(arena->base(), host->base(), bytes, {});
  up->Record(*event);
  down->Wait(*event);
  down->Copy(host->base() + bytes, arena->base(), bytes, {});
  device->Synchronize();
  EXPECT_EQ(std::memcmp(host->base(), host->base() + bytes, static_cast<size_t>(bytes)), 0);
}

TEST(CudaDevice, EmptyBlocksAndCopiesAreAllowed) {
  const auto device = Open();
  const auto host = device->AllocateHost(0);
  const auto arena = device->AllocateDevice(0);
  const auto up = device->MakeLane(LaneKind::kHostToDevice, "h2d");
  up->Copy(arena->base(), host->base(), 0, {});
  device->Synchronize();
}

TEST(CudaDevice, AStreamWaitsForHostWorkThatComesLater) {
  const auto device = Open();
  const auto host_lane = device->MakeLane(LaneKind::kHost, "host");
  const auto up = device->MakeLane(LaneKind::kHostToDevice, "h2d");
  const auto down = device->MakeLane(LaneKind::kDeviceToHost, "d2h");
  const auto written = device->MakeEvent();
  const auto fetched = device->MakeEvent();
  const auto host = device->AllocateHost(2 * kAlignment);
  const auto arena = device->AllocateDevice(kAlignment);
  for (int round = 0; round < 20; ++round) {
    host->base()[0] = std::byte{0};
    host_lane->Run(
        [&](LaneContext&) {
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
          host->base()[0] = static_cast<std::byte>(round + 1);
        },
        {});
    host_lane->Record(*written);
    up->Wait(*written);
    up->Copy(arena->base(), host->base(), kAlignment, {});
    up->Record(*fetched);
    down->Wait(*fetched);
    down->Copy(host->base() + kAlignment, arena->base(), kAlignment, {});
    device->Synchronize();
    ASSERT_EQ(host->base()[kAlignment], static_cast<std::byte>(round + 1));
  }
}

// Host and device pass a counter to and fro: each adds one to what the other left, many times in
// one go, over more work than a launch queue holds.
TEST(CudaDevice, HostAndStreamsTakeTurns) {
  const auto device = Open();
  const auto host_lane = device->MakeLane(LaneKind::kHost, "host");
  const auto compute = device->MakeLane(LaneKind::kCompute, "compute");
  const auto up = device->MakeLane(LaneKind::kHostToDevice, "h2d");
  const auto down = device->MakeLane(LaneKind::kDeviceToHost, "d2h");
  constexpr int kTurns = 2000;
  std::vector<std::unique_ptr<Event>> events;
  for (int i = 0; i < 4 * kTurns; ++i) events.push_back(device->MakeEvent());
  const auto host = device->AllocateHost(2 * kAlignment);
  const auto arena = device->AllocateDevice(2 * kAlignment);
  auto* sent = reinterpret_cast<volatile int*>(host->base());
  auto* received = reinterpret_cast<volatile int*>(host->base() + kAlignment);
  for (int round = 0; round < 3; ++round) {
    *received = 0;
    std::atomic<int> wrong{0};
    for (auto& event : events) device->Reset(*event);
    for (int turn = 0; turn < kTurns; ++turn) {
      const auto event = [&](int i) -> Event& {
        return *events[static_cast<size_t>(4 * turn + i)];
      };
      if (turn > 0) host_lane->Wait(*events[static_cast<size_t>(4 * turn - 1)]);
      host_lane->Run(
          [&, turn](LaneContext&) {
            if (*received != turn) ++wrong;
            *sent = turn + 1;
          },
          {});
      host_lane->Record(event(0));
      up->Wait(event(0));
      up->Copy(arena->base(), host->base(), kAlignment, {});
      up->Record(event(1));
      compute->Wait(event(1));
      compute->Copy(arena->base() + kAlignment, arena->base(), kAlignment, {});
      compute->Record(event(2));
      down->Wait(event(2));
      down->Copy(host->base() + kAlignment, arena->base() + kAlignment, kAlignment, {});
      down->Record(event(3));
    }
    device->Synchronize();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(*received, kTurns);
    for (size_t i = 1; i < events.size(); ++i) {
      // Two clocks that were set together: microseconds may lie between them.
      ASSERT_GT(events[i]->seconds(), events[i - 1]->seconds() - 5e-4) << i;
    }
  }
}

// Random lanes wait for random earlier events of others; every piece of work checks what it sees.
TEST(CudaDevice, RandomWaitsHold) {
  const auto device = Open();
  std::vector<std::unique_ptr<Lane>> lanes;
  for (const LaneKind kind : {LaneKind::kCompute, LaneKind::kHostToDevice, LaneKind::kDeviceToHost,
                              LaneKind::kHost, LaneKind::kNvmeRead}) {
    lanes.push_back(device->MakeLane(kind, "lane"));
  }
  std::mt19937 random(11);
  constexpr int kWork = 1500;
  const auto host = device->AllocateHost(RoundUp((kWork + 1) * 4, kAlignment));
  const auto arena = device->AllocateDevice(host->bytes());
  auto* cells = reinterpret_cast<int*>(host->base());
  auto* device_cells = reinterpret_cast<int*>(arena->base());
  cells[kWork] = 1;
  std::vector<std::unique_ptr<Event>> events;
  for (int i = 0; i < kWork; ++i) events.push_back(device->MakeEvent());
  for (int round = 0; round < 3; ++round) {
    std::fill(cells, cells + kWork, 0);
    std::atomic<int> wrong{0};
    for (int i = 0; i < kWork; ++i) {
      device->Reset(*events[static_cast<size_t>(i)]);
      const size_t l = random() % lanes.size();
      Lane& lane = *lanes[l];
      // Work i copies cell j, that of earlier work, to its own: 1 if it waited for it.
      const int j = i == 0 ? kWork : static_cast<int>(random() % static_cast<unsigned>(i));
      if (j < kWork) lane.Wait(*events[static_cast<size_t>(j)]);
      if (l < 3) {
        lane.Copy(device_cells + i, cells + j, 4, {});
        lane.Copy(cells + i, device_cells + i, 4, {});
      } else {
        lane.Run([=, &wrong](LaneContext&) { wrong += (cells[i] = cells[j]) != 1; }, {});
      }
      lane.Record(*events[static_cast<size_t>(i)]);
    }
    device->Synchronize();
    EXPECT_EQ(wrong, 0);
    for (int i = 0; i < kWork; ++i) ASSERT_EQ(cells[i], 1) << i;
  }
}

TEST(CudaDevice, EventsTellWhatWorkTook) {
  const auto device = Open();
  const auto compute = device->MakeLane(LaneKind::kCompute, "compute");
  const auto host_lane = device->MakeLane(LaneKind::kHost, "host");
  const int64_t bytes = int64_t{4} << 30;
  const auto arena = device->AllocateDevice(bytes);
  std::vector<std::unique_ptr<Event>> events;
  for (int i = 0; i < 4; ++i) events.push_back(device->MakeEvent());
  for (int round = 0; round < 2; ++round) {
    compute->Record(*events[0]);
    Fill(*compute, arena->base(), round, bytes);
    compute->Record(*events[1]);
    host_lane->Wait(*events[1]);
    host_lane->Record(*events[2]);
    host_lane->Run([](LaneContext&) { std::this_thread::sleep_for(std::chrono::milliseconds(10)); },
                   {});
    host_lane->Record(*events[3]);
    device->Synchronize();
    const double fill = events[1]->seconds() - events[0]->seconds();
    EXPECT_GT(fill, 4.3e9 / 10e12);
    EXPECT_LT(fill, 4.3e9 / 0.5e12);
    EXPECT_GE(events[2]->seconds(), events[1]->seconds() - 5e-4);
    EXPECT_NEAR(events[3]->seconds() - events[2]->seconds(), 0.0102, 0.002);
  }
}

TEST(CudaDevice, AFailureReachesSynchronizeAndStopsTheOthers) {
  const auto device = Open();
  const auto compute = device->MakeLane(LaneKind::kCompute, "compute");
  const auto host_lane = device->MakeLane(LaneKind::kHost, "host");
  const auto event = device->MakeEvent();
  bool ran = false;
  compute->Run([](LaneContext&) { throw std::runtime_error("broken"); }, {});
  compute->Record(*event);
  host_lane->Wait(*event);
  host_lane->Run([&](LaneContext&) { ran = true; }, {});
  EXPECT_THROW(device->Synchronize(), std::runtime_error);
  EXPECT_FALSE(ran);
  host_lane->Run([](LaneContext&) { throw std::runtime_error("broken"); }, {});
  EXPECT_THROW(device->Synchronize(), std::runtime_error);
  host_lane->Run([&](LaneContext&) { ran = true; }, {});
  device->Synchronize();
  EXPECT_TRUE(ran);
}

// Last: the GPU's context does not survive.
TEST(CudaDeviceDeathTest, AnErrorOfAKernelIsReportedAndNobodyWaitsForever) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        const auto device = Open();
        const auto compute = device->MakeLane(LaneKind::kCompute, "compute");
        const auto host_lane = device->MakeLane(LaneKind::kHost, "host");
        const auto event = device->MakeEvent();
        const auto arena = device->AllocateDevice(kAlignment);
        // Address 256 is nobody's: the copy fails on the device or is refused.
        Fill(*compute, reinterpret_cast<std::byte*>(256), 1, kAlignment);
        compute->Record(*event);
        host_lane->Wait(*event);
        host_lane->Run([](LaneContext&) {}, {});
        try {
          device->Synchronize();
          std::_Exit(1);
        } catch (const Error&) {
          std::_Exit(7);
        }
      },
      ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace lazytrain::cuda
