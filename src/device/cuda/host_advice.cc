#include "device/cuda/host_advice.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <system_error>

namespace lazytrain::cuda {
namespace {

std::string FirstLine(const Path& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

int CountNodes(const Path& folder) {
  std::error_code unreadable;
  int nodes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder, unreadable)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("node") && name.size() > 4 && std::isdigit(name[4]) != 0) ++nodes;
  }
  return nodes;
}

}  // namespace

std::vector<std::string> HostAdvice(const Path& root, std::string_view bus) {
  std::vector<std::string> advice;
  const char* pages = "sys/kernel/mm/transparent_hugepage/enabled";
  if (FirstLine(root / pages).find("[never]") != std::string::npos) {
    advice.push_back(
        fmt::format("transparent huge pages are off, pinning host memory takes longer; allow them: "
                    "echo madvise > /{}",
                    pages));
  }
  // The kernel writes addresses in small letters, with four digits of the domain.
  std::string address(bus);
  std::transform(address.begin(), address.end(), address.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::string text = FirstLine(root / "sys/bus/pci/devices" / address / "numa_node");
  const int nodes = CountNodes(root / "sys/devices/system/node");
  const int node = text.empty() ? -1 : std::atoi(text.c_str());
  if (nodes > 1 && node >= 0) {
    advice.push_back(fmt::format(
        "the GPU is at NUMA node {} of {}, memory of the others is farther away; if node {} has "
        "enough of it, run under numactl --cpunodebind={} --preferred={}",
        node, nodes, node, node, node));
  }
  return advice;
}

}  // namespace lazytrain::cuda
