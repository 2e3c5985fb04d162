// What is said when a GPU, its driver or its memory will not do; needs none of them.
#ifdef LAZYTRAIN_HAS_CUDA

#include "device/cuda/gpu_requirements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "device/cuda/cuda_error.h"
#include "device/cuda/driver_overhead.h"

namespace lazytrain::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string ErrorOf(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), Not(HasSubstr("\n")));
    return error.what();
  }
  return "nothing was thrown";
}

// What an H200's driver held beyond what it held before host memory was pinned.
TEST(DriverOverhead, TablesOfPinnedMemory) {
  for (const auto& [pinned, held] : {std::pair<int64_t, int64_t>{123'986'296'064, 244'081'408},
                                     {123'085'569'280, 241'299'456},
                                     {229'953'543'680, 454'308'608}}) {
    EXPECT_GE(PinnedTableBytes(pinned), held);
    EXPECT_LE(PinnedTableBytes(pinned), held + 10'000'000);
  }
  EXPECT_EQ(PinnedTableBytes(0), 0);
}

TEST(GpuRequirements, NoDriver) {
  EXPECT_THAT(ErrorOf([] { CheckVersions(0, 13000); }),
              AllOf(HasSubstr("no NVIDIA driver"), HasSubstr("install driver 580")));
}

TEST(GpuRequirements, AnOldDriver) {
  EXPECT_THAT(ErrorOf([] { CheckVersions(12040, 13000); }),
              AllOf(HasSubstr("for CUDA 12.4 and this program for CUDA 13.0"),
                    HasSubstr("install driver 580")));
  // Within a major version an older driver runs newer programs.
  EXPECT_NO_THROW(CheckVersions(13000, 13010));
  EXPECT_NO_THROW(CheckVersions(14000, 13000));
}

TEST(GpuRequirements, NoGpuOrNotThatOne) {
  EXPECT_THAT(ErrorOf([] { CheckIndex(0, 0); }),
              AllOf(HasSubstr("finds no GPU"), HasSubstr("CUDA_VISIBLE_DEVICES")));
  EXPECT_EQ(ErrorOf([] { CheckIndex(1, 1); }), "device 'cuda:1': there is 1 GPU, counted from 0");
  EXPECT_EQ(ErrorOf([] { CheckIndex(7, 4); }), "device 'cuda:7': there are 4 GPUs, counted from 0");
  EXPECT_NO_THROW(CheckIndex(3, 4));
}

TEST(GpuRequirements, AnArchitectureThatIsTooOldOrWasNotBuilt) {
  EXPECT_THAT(WrongArchitecture("90a", 75).what(),
              AllOf(HasSubstr("sm_75, which is too old"), HasSubstr("sm_80")));
  EXPECT_THAT(WrongArchitecture("80,86", 90).what(),
              AllOf(HasSubstr("built for sm_80,86 and the GPU is an sm_90"),
                    HasSubstr("-DLAZYTRAIN_CUDA_ARCH=90a")));
  EXPECT_THAT(WrongArchitecture("90a", 89).what(), HasSubstr("-DLAZYTRAIN_CUDA_ARCH=89"));
}

TEST(GpuRequirements, MemoryThatOthersHold) {
  const int64_t gb = 1'000'000'000;
  EXPECT_EQ(std::string(NoMemory(70 * gb, 40 * gb, 150 * gb, 110 * gb).what()),
            "the plan needs 70.00 GB of GPU memory and 40.00 GB of 150.00 GB are free: other "
            "programs hold "
            "110.00 GB; end them (nvidia-smi lists them) or lower memory.device_memory_gb");
  EXPECT_EQ(std::string(NoMemory(170 * gb, 149 * gb, 150 * gb, gb / 2).what()),
            "the plan needs 170.00 GB of GPU memory and 149.00 GB of 150.00 GB are free; lower "
            "memory.device_memory_gb");
}

TEST(GpuRequirements, ErrorsOfCudaComeWithARemedy) {
  const auto message = [](cudaError_t status) {
    return ErrorOf([status] { Check(status, "opening the GPU"); });
  };
  EXPECT_THAT(message(cudaErrorMemoryAllocation),
              AllOf(HasSubstr("opening the GPU: "), HasSubstr("end what else uses the GPU")));
  EXPECT_THAT(message(cudaErrorDevicesUnavailable), HasSubstr("another program has the GPU"));
  EXPECT_THAT(message(cudaErrorInsufficientDriver), HasSubstr("install driver 580"));
  EXPECT_THAT(message(cudaErrorNoKernelImageForDevice), HasSubstr("LAZYTRAIN_CUDA_ARCH"));
  EXPECT_THAT(message(cudaErrorECCUncorrectable), HasSubstr("use another one"));
  EXPECT_THAT(message(cudaErrorIllegalAddress), HasSubstr("please report it"));
  EXPECT_NO_THROW(Check(cudaSuccess, "nothing"));
}

}  // namespace
}  // namespace lazytrain::cuda

#endif
