#include "profile/nvme.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>

#include "core/error.h"
#include "core/random.h"
#include "core/thread_pool.h"
#include "core/units.h"

namespace lazytrain {
namespace {

constexpr int kOutstanding = 8;
constexpr int64_t kBlock = int64_t{4} << 20;

std::string Reason() { return std::strerror(errno); }

// A file that has lost its name already: whatever happens, it is gone when this process is.
class ScratchFile {
 public:
  explicit ScratchFile(const Path& folder) : folder_(folder) {
    const std::string name = (folder / fmt::format(".lazytrain-profile-{}", getpid())).string();
    fd_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_DIRECT | O_CLOEXEC, 0600);
    const int error = errno;
    if (fd_ >= 0 || error == EINVAL) ::unlink(name.c_str());
    if (fd_ >= 0) return;
    if (error == EINVAL) {
      throw RunError(
          "{}: this file system refuses O_DIRECT; choose a folder on a local disk (ext4, xfs)",
          folder.string());
    }
    throw RunError("{}: cannot make a file here: {}; choose another folder", folder.string(),
                   std::strerror(error));
  }
  ~ScratchFile() { ::close(fd_); }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;

  void Write(const std::byte* data, int64_t at) const {
    Transfer("write", [&](int64_t done) {
      return ::pwrite(fd_, data + done, static_cast<size_t>(kBlock - done), at + done);
    });
  }
  void Read(std::byte* data, int64_t at) const {
    Transfer("read", [&](int64_t done) {
      return ::pread(fd_, data + done, static_cast<size_t>(kBlock - done), at + done);
    });
  }
  void Sync() const {
    if (::fsync(fd_) != 0) Fail("write");
  }

 private:
  [[noreturn]] void Fail(const char* verb) const {
    throw RunError("{}: cannot {} the test file: {}; free some space or choose another folder",
                   folder_.string(), verb, Reason());
  }
  void Transfer(const char* verb, const std::function<int64_t(int64_t)>& call) const {
    for (int64_t done = 0; done < kBlock;) {
      const int64_t moved = call(done);
      if (moved < 0 && errno == EINTR) continue;
      if (moved == 0) errno = EIO;
      if (moved <= 0) Fail(verb);
      done += moved;
    }
  }

  Path folder_;
  int fd_ = -1;
};

// Blocks of whole pages, one a thread, of numbers that no disk compresses.
class Blocks {
 public:
  Blocks() {
    void* memory =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw RunError("cannot map memory to write from: {}", Reason());
    base_ = static_cast<std::byte*>(memory);
    Random random(1);
    auto* words = reinterpret_cast<uint64_t*>(base_);
    for (size_t i = 0; i < kBytes / sizeof(uint64_t); ++i) words[i] = random.Next();
  }
  ~Blocks() { ::munmap(base_, kBytes); }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;
  std::byte* at(int64_t thread) const { return base_ + thread * kBlock; }

 private:
  static constexpr size_t kBytes = static_cast<size_t>(kOutstanding * kBlock);
  std::byte* base_ = nullptr;
};

void CheckRoom(const Path& folder, int64_t bytes) {
  struct statvfs status = {};
  if (::statvfs(folder.c_str(), &status) != 0) {
    throw UsageError("{}: cannot be used: {}; give a folder on the disk to measure",
                     folder.string(), Reason());
  }
  const auto room = static_cast<double>(status.f_bavail) * static_cast<double>(status.f_frsize);
  // A disk that is full to the last byte is no measure.
  if (1.05 * static_cast<double>(bytes) > room) {
    throw RunError(
        "{}: has {} free, and the test file takes {}; free some space or lower --nvme-gb",
        folder.string(), FormatBytes(static_cast<int64_t>(room)), FormatBytes(bytes));
  }
}

double SecondsOf(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

NvmeRates MeasureNvme(const Path& folder, int64_t bytes) {
  const int64_t blocks = std::max<int64_t>(bytes / kBlock, 2 * kOutstanding);
  CheckRoom(folder, blocks * kBlock);
  const ScratchFile file(folder);
  const Blocks memory;
  ThreadPool threads(kOutstanding);
  // Each thread takes every kOutstanding-th block, so that the blocks under way are neighbours.
  const auto sweep = [&](const std::function<void(std::byte*, int64_t)>& transfer) {
    threads.Run(kOutstanding, [&](int64_t t) {
      for (int64_t b = t; b < blocks; b += kOutstanding) transfer(memory.at(t), b * kBlock);
    });
  };
  const auto total = static_cast<double>(blocks * kBlock);
  NvmeRates rates;
  rates.write = total / SecondsOf([&] {
                  sweep([&](std::byte* data, int64_t at) { file.Write(data, at); });
                  file.Sync();
                });
  rates.read =
      total / SecondsOf([&] { sweep([&](std::byte* data, int64_t at) { file.Read(data, at); }); });
  return rates;
}

}  // namespace lazytrain
