#include "core/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace lazytrain {
namespace {

constexpr size_t kWriteBuffer = size_t{1} << 20;

std::string Reason() { return std::strerror(errno); }

void WriteAll(FileLayer& layer, int fd, const char* data, size_t bytes, const Path& path) {
  while (bytes > 0) {
    const int64_t written = layer.Write(fd, data, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      throw RunError("{}: cannot write: {}; free some space or choose another folder",
                     path.string(), Reason());
    }
    data += written;
    bytes -= static_cast<size_t>(written);
  }
}

}  // namespace

int FileLayer::Open(const char* path, int flags, int mode) { return ::open(path, flags, mode); }
int FileLayer::Close(int fd) { return ::close(fd); }
int64_t FileLayer::Read(int fd, void* data, size_t bytes) { return ::read(fd, data, bytes); }
int64_t FileLayer::Write(int fd, const void* data, size_t bytes) {
  return ::write(fd, data, bytes);
}
int FileLayer::Sync(int fd) { return ::fsync(fd); }
int FileLayer::Rename(const char* from, const char* to) { return ::rename(from, to); }

FileLayer& SystemFiles() {
  static FileLayer layer;  // stateless
  return layer;
}

std::string ReadFile(const Path& path, FileLayer& layer) {
  if (std::filesystem::is_directory(path)) {
    throw RunError("{}: is a folder; a file is needed", path.string());
  }
  const int fd = layer.Open(path.c_str(), O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) throw RunError("{}: cannot open: {}", path.string(), Reason());
  std::string text;
  std::string chunk(kWriteBuffer, '\0');
  while (true) {
    const int64_t got = layer.Read(fd, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const std::string reason = Reason();
      layer.Close(fd);
      throw RunError("{}: cannot read: {}", path.string(), reason);
    }
    if (got == 0) break;
    text.append(chunk.data(), static_cast<size_t>(got));
  }
  layer.Close(fd);
  return text;
}

FileWriter::FileWriter(Path path, FileLayer& layer)
    : path_(std::move(path)), partial_(path_.string() + ".partial"), layer_(layer) {
  fd_ = layer_.Open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) Fail("cannot create");
}

FileWriter::~FileWriter() {
  if (fd_ < 0) return;
  layer_.Close(fd_);
  std::error_code ignored;
  std::filesystem::remove(partial_, ignored);
}

void FileWriter::Fail(std::string_view what) const {
  throw RunError("{}: {}: {}; free some space or choose another folder", path_.string(), what,
                 Reason());
}

void FileWriter::Write(const void* data, size_t bytes) {
  buffer_.append(static_cast<const char*>(data), bytes);
  if (buffer_.size() >= kWriteBuffer) Flush();
}

void FileWriter::Flush() {
  WriteAll(layer_, fd_, buffer_.data(), buffer_.size(), path_);
  buffer_.clear();
}

void FileWriter::Commit() {
  Flush();
  if (layer_.Sync(fd_) < 0) Fail("cannot flush to disk");
  const int fd = std::exchange(fd_, -1);
  const bool done = layer_.Close(fd) == 0 && layer_.Rename(partial_.c_str(), path_.c_str()) == 0;
  if (done) return;
  const std::string reason = Reason();
  std::error_code ignored;
  std::filesystem::remove(partial_, ignored);
  throw RunError("{}: cannot finish the file: {}", path_.string(), reason);
}

LineWriter::LineWriter(Path path, FileLayer& layer) : path_(std::move(path)), layer_(layer) {
  fd_ = layer_.Open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) throw RunError("{}: cannot create: {}", path_.string(), Reason());
}

LineWriter::~LineWriter() { layer_.Close(fd_); }

void LineWriter::WriteLine(std::string_view line) {
  std::string text(line);
  text += '\n';
  WriteAll(layer_, fd_, text.data(), text.size(), path_);
}

void WriteFile(const Path& path, std::string_view text, FileLayer& layer) {
  FileWriter writer(path, layer);
  writer.Write(text);
  writer.Commit();
}

void MakeWritableFolder(const Path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw RunError("{}: cannot make this folder: {}; choose another one", folder.string(),
                   error.message());
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    throw RunError("{}: this folder cannot be written: {}; choose another one", folder.string(),
                   Reason());
  }
}

MappedFile::MappedFile(const Path& path) : path_(path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw RunError("{}: cannot open: {}", path.string(), Reason());
  struct stat status = {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd);
    throw RunError("{}: is not a regular file", path.string());
  }
  size_ = static_cast<size_t>(status.st_size);
  if (size_ > 0) {
    void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
    if (mapped == MAP_FAILED) {
      const std::string reason = Reason();
      ::close(fd);
      throw RunError("{}: cannot map: {}", path.string(), reason);
    }
    data_ = static_cast<const std::byte*>(mapped);
  }
  ::close(fd);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace lazytrain
