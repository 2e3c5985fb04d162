// What is said about hosts that are slow to copy from; the system's files are the test's.
#ifdef LAZYTRAIN_HAS_CUDA

#include "device/cuda/host_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/temp_folder.h"

namespace lazytrain::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HostAdviceTest : public ::testing::Test {
 protected:
  void Put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    WriteFile(root_ / path, text);
  }
  void PutNodes(int count) {
    for (int node = 0; node < count; ++node) {
      Put("sys/devices/system/node/node" + std::to_string(node) + "/distance", "10\n");
    }
    Put("sys/devices/system/node/possible", "0\n");
  }

  TempFolder temp_;
  const Path root_ = temp_.path();
};

TEST_F(HostAdviceTest, NothingToSayOfAPlainHost) {
  Put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  Put("sys/bus/pci/devices/0000:1b:00.0/numa_node", "0\n");
  PutNodes(1);
  EXPECT_THAT(HostAdvice(root_, "0000:1B:00.0"), IsEmpty());
}

TEST_F(HostAdviceTest, NothingToSayWhereNothingCanBeRead) {
  EXPECT_THAT(HostAdvice(root_, "0000:1B:00.0"), IsEmpty());
}

TEST_F(HostAdviceTest, NoHugePages) {
  Put("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  EXPECT_THAT(HostAdvice(root_, ""),
              ElementsAre(HasSubstr("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")));
}

TEST_F(HostAdviceTest, SeveralNumaNodes) {
  Put("sys/bus/pci/devices/0000:1b:00.0/numa_node", "1\n");
  PutNodes(2);
  EXPECT_THAT(HostAdvice(root_, "0000:1B:00.0"),
              ElementsAre(AllOf(HasSubstr("NUMA node 1 of 2"),
                                HasSubstr("numactl --cpunodebind=1 --preferred=1"))));
}

TEST_F(HostAdviceTest, ANodeThatTheKernelDoesNotKnow) {
  Put("sys/bus/pci/devices/0000:1b:00.0/numa_node", "-1\n");
  PutNodes(2);
  EXPECT_THAT(HostAdvice(root_, "0000:1B:00.0"), IsEmpty());
}

}  // namespace
}  // namespace lazytrain::cuda
#endif  // LAZYTRAIN_HAS_CUDA
