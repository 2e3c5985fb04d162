// Safetensors files and the hub's model folders: memory-mapped for reading, streamed for writing.
// The format (github.com/huggingface/safetensors): 8 bytes of little-endian header length, a JSON
// header `name -> {dtype, shape, data_offsets}`, then the tensors' bytes without holes or overlaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/file.h"
#include "core/tensor.h"

namespace lazytrain {

// A tensor inside a mapped file; row-major, little-endian. The format promises no alignment of
// `data`: copy with memcpy, do not cast.
struct StoredTensor {
  DType dtype = DType::kF32;
  Shape shape;
  const std::byte* data = nullptr;
  int64_t bytes = 0;
};

// One file, mapped. The views it hands out live as long as it does (moving it keeps them).
class SafetensorsFile {
 public:
  // Throws Error naming file and tensor: missing, truncated (bytes expected and present), malformed
  // header (with the byte's position), duplicate names, offsets that leave the file, overlap or
  // leave holes, a shape and data type that do not make the tensor's bytes.
  explicit SafetensorsFile(const Path& path);

  // Every tensor of a data type this program knows, by name.
  const std::map<std::string, StoredTensor, std::less<>>& tensors() const { return tensors_; }
  // The others (fp8, bool, ...): name -> the header's spelling of its data type.
  const std::map<std::string, std::string, std::less<>>& unsupported() const {
    return unsupported_;
  }
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }

  bool Contains(std::string_view name) const;
  // Throws Error when the tensor is missing or of an unsupported data type.
  const StoredTensor& Find(std::string_view name) const;

  const Path& path() const { return file_.path(); }

 private:
  MappedFile file_;
  std::map<std::string, StoredTensor, std::less<>> tensors_;
  std::map<std::string, std::string, std::less<>> unsupported_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

// The weights of a model folder: `model.safetensors`, else the shards that
// `model.safetensors.index.json` lists.
class Checkpoint {
 public:
  // Throws Error: nothing of the above there, a broken file, an index that names a missing shard or
  // puts a tensor into a shard that lacks it.
  explicit Checkpoint(const Path& folder);

  const std::vector<std::string>& names() const { return names_; }  // sorted
  bool Contains(std::string_view name) const { return shard_of_.contains(name); }
  // Throws Error naming the folder when the tensor is missing or of an unsupported data type.
  const StoredTensor& Find(std::string_view name) const;
  // The file that holds the tensor, for messages.
  const Path& FileOf(std::string_view name) const;

 private:
  void ReadIndex(const Path& index);
  const SafetensorsFile& ShardOf(std::string_view name) const;

  Path folder_;
  std::vector<SafetensorsFile> shards_;
  std::map<std::string, size_t, std::less<>> shard_of_;
  std::vector<std::string> names_;
};

// A tensor to be written. Its bytes either lie at `data`, or `fill` puts all of them at `out`.
struct TensorToWrite {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  const void* data = nullptr;
  std::function<void(std::byte* out, int64_t bytes)> fill;
};

// Writes one file under any name; at most one filled tensor is in memory at a time.
void WriteSafetensorsFile(const Path& path, const std::vector<TensorToWrite>& tensors,
                          FileLayer& layer = SystemFiles());

// Writes the weights of a model folder in hub layout: `model.safetensors`, or, when the tensors
// have more than `max_shard_bytes` bytes, `model-00001-of-0000N.safetensors`, ... and
// `model.safetensors.index.json`. Tensors fill the shards in the order they were added; a tensor
// larger than a shard gets one of its own.
class SafetensorsWriter {
 public:
  static constexpr int64_t kDefaultShardBytes = 5'000'000'000;  // as the hub's tools do

  explicit SafetensorsWriter(Path folder, int64_t max_shard_bytes = kDefaultShardBytes,
                             FileLayer& layer = SystemFiles());

  void Add(TensorToWrite tensor);

  // Writes all files beside their names and then names them, the index last. Throws Error, and
  // leaves none of the files behind, when something cannot be written, and when the folder already
  // holds weights in the other layout (one file or shards), which readers would confuse with these.
  void Write() const;

 private:
  std::vector<std::vector<TensorToWrite>> CutIntoShards() const;
  std::string Index(const std::vector<std::vector<TensorToWrite>>& shards) const;

  Path folder_;
  int64_t max_shard_bytes_;
  FileLayer& layer_;
  std::vector<TensorToWrite> tensors_;
};

}  // namespace lazytrain
