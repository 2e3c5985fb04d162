#include "train/device_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/error.h"

namespace lazytrain {
namespace {

std::string ErrorOf(const std::string& name, bool throttle = false) {
  try {
    OpenDevice(name, false, throttle);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
    return error.what();
  }
  return "nothing was thrown";
}

TEST(DeviceChoice, CpuIsTheVirtualAccelerator) {
  EXPECT_EQ(OpenDevice("cpu", false)->backend(), "cpu");
  EXPECT_EQ(OpenDevice("cpu", false)->UsedBytes(), 0);
}

TEST(DeviceChoice, UnknownNamesAreRefused) {
  EXPECT_EQ(ErrorOf("gpu"), "device 'gpu': choose auto, cpu (the virtual accelerator) or cuda:0");
}

#ifdef LAZYTRAIN_HAS_CUDA
TEST(DeviceChoice, CudaIsNamedByItsIndexAndNeverThrottled) {
  EXPECT_EQ(ErrorOf("cuda:"), "device 'cuda:': write cuda:0 for the first GPU");
  EXPECT_EQ(ErrorOf("cuda:1x"), "device 'cuda:1x': write cuda:0 for the first GPU");
  EXPECT_EQ(ErrorOf("cuda:-1"), "device 'cuda:-1': write cuda:0 for the first GPU");
  EXPECT_EQ(ErrorOf("cuda:0", true),
            "device 'cuda:0': hardware.throttle is for the device cpu; take it away");
}
#else
TEST(DeviceChoice, ABuildWithoutCudaSaysSo) {
  EXPECT_EQ(ErrorOf("cuda:0"),
            "device 'cuda:0': this build has no CUDA backend; use cpu, the virtual accelerator");
}
#endif

}  // namespace
}  // namespace lazytrain
