// Files: read whole or mapped, written completely or not at all. Every call that reaches the
// operating system goes through a FileLayer, so that tests can make disks full and reads short.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace lazytrain {

using Path = std::filesystem::path;

// The system calls this project makes on files. Each returns what the call of that name returns:
// a negative value with errno set on failure.
class FileLayer {
 public:
  virtual ~FileLayer() = default;
  virtual int Open(const char* path, int flags, int mode);
  virtual int Close(int fd);
  virtual int64_t Read(int fd, void* data, size_t bytes);
  virtual int64_t Write(int fd, const void* data, size_t bytes);
  virtual int Sync(int fd);
  virtual int Rename(const char* from, const char* to);
};

// The operating system as it is.
FileLayer& SystemFiles();

// The whole file. Throws Error naming the path and the reason.
std::string ReadFile(const Path& path, FileLayer& layer = SystemFiles());

// A file written from front to back. The name appears only with Commit: until then the bytes are in
// `<path>.partial`, which the destructor removes.
class FileWriter {
 public:
  explicit FileWriter(Path path, FileLayer& layer = SystemFiles());
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void Write(const void* data, size_t bytes);
  void Write(std::string_view text) { Write(text.data(), text.size()); }
  // Syncs, closes and gives the file its name.
  void Commit();

 private:
  void Flush();
  [[noreturn]] void Fail(std::string_view what) const;

  Path path_;
  Path partial_;
  FileLayer& layer_;
  int fd_ = -1;
  std::string buffer_;
};

// A file that grows line by line and is readable at any time (metrics.jsonl).
class LineWriter {
 public:
  explicit LineWriter(Path path, FileLayer& layer = SystemFiles());
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;
  void WriteLine(std::string_view line);  // without its newline

 private:
  Path path_;
  FileLayer& layer_;
  int fd_ = -1;
};

void WriteFile(const Path& path, std::string_view text, FileLayer& layer = SystemFiles());

// Makes the folder (and its parents) and checks that files can be made in it.
void MakeWritableFolder(const Path& folder);

// A file mapped for reading.
class MappedFile {
 public:
  explicit MappedFile(const Path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const Path& path() const { return path_; }

 private:
  Path path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace lazytrain
