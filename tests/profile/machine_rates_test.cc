// Rates of the virtual accelerator and of a folder's disk: there, and of plausible size.
#include "profile/machine_rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "device/cpu/virtual_accelerator.h"
#include "profile/nvme.h"
#include "tests/temp_folder.h"

namespace lazytrain {
namespace {

TEST(MachineRates, AreMeasuredInLittleMemory) {
  const std::unique_ptr<Device> device = MakeVirtualAccelerator({});
  const MachineRates rates = MeasureRates(*device, 4'000'000);
  for (const double bytes : {rates.h2d, rates.d2h, rates.h2d_both, rates.d2h_both, rates.host,
                             rates.host_beside_links, rates.host_shared, rates.device_copy}) {
    EXPECT_GT(bytes, 1e8);
    EXPECT_LT(bytes, 1e13);
  }
  for (const double parameters :
       {rates.host_update, rates.host_update_beside_links, rates.device_update}) {
    EXPECT_GT(parameters, 1e6);
    EXPECT_LT(parameters, 1e12);
  }
  EXPECT_EQ(rates.gemm_flops, 0);
  EXPECT_EQ(rates.nvme_read, 0);
}

TEST(Nvme, RefusesFoldersThatCannotBeMeasured) {
  const auto error_of = [](const Path& folder, int64_t bytes) {
    try {
      MeasureNvme(folder, bytes);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_THAT(error_of("/nowhere", 1 << 20), testing::HasSubstr("/nowhere: cannot be used"));
  EXPECT_THAT(error_of(testing::TempDir(), int64_t{1} << 60), testing::HasSubstr("--nvme-gb"));
  EXPECT_THAT(error_of("/proc", 1), testing::HasSubstr("/proc"));
}

// Where O_DIRECT is refused (some container file systems), that is what is said.
TEST(Nvme, MeasuresAndLeavesNothingBehind) {
  const TempFolder temp;
  const Path& folder = temp.path();
  try {
    const NvmeRates rates = MeasureNvme(folder, int64_t{64} << 20);
    EXPECT_GT(rates.write, 1e5);
    EXPECT_GT(rates.read, 1e5);
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("O_DIRECT"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

}  // namespace
}  // namespace lazytrain
