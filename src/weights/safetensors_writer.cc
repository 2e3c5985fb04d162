#include <algorithm>
#include <memory>
#include <set>

#include "core/error.h"
#include "core/json.h"
#include "core/units.h"
#include "weights/safetensors.h"

namespace lazytrain {
namespace {

using Tensors = std::vector<TensorToWrite>;

int64_t BytesOf(const TensorToWrite& tensor) {
  return NumElements(tensor.shape) * SizeOf(tensor.dtype);
}

// Wide elements first, so that each tensor is aligned to its element size as long as the data
// begins at a multiple of 8.
std::vector<const TensorToWrite*> FileOrder(const Tensors& tensors) {
  std::vector<const TensorToWrite*> order;
  order.reserve(tensors.size());
  for (const TensorToWrite& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const TensorToWrite* a, const TensorToWrite* b) {
    return SizeOf(a->dtype) > SizeOf(b->dtype);
  });
  return order;
}

std::string Header(const std::vector<const TensorToWrite*>& order) {
  Json header = Json::object();
  header["__metadata__"]["format"] = "pt";
  std::set<std::string_view> names = {"__metadata__"};
  int64_t offset = 0;
  for (const TensorToWrite* tensor : order) {
    // Json would find an earlier name by walking all of them: thousands of tensors are usual.
    if (!names.insert(tensor->name).second) {
      throw InternalError("two tensors to be written are named '{}'", tensor->name);
    }
    Json entry;
    entry["dtype"] = SafetensorsName(tensor->dtype);
    entry["shape"] = tensor->shape;
    entry["data_offsets"] = {offset, offset + BytesOf(*tensor)};
    header.get_ref<Json::object_t&>().push_back({tensor->name, std::move(entry)});
    offset += BytesOf(*tensor);
  }
  std::string text = header.dump();
  text.resize(static_cast<size_t>(RoundUp(static_cast<int64_t>(text.size()), 8)), ' ');
  return text;
}

// In pieces, since FileWriter copies what it is given.
void WriteBytes(FileWriter& writer, const void* data, int64_t bytes) {
  constexpr int64_t kPiece = 1'000'000;
  const auto* at = static_cast<const char*>(data);
  for (int64_t done = 0; done < bytes; done += kPiece) {
    writer.Write(at + done, static_cast<size_t>(std::min(kPiece, bytes - done)));
  }
}

void WriteContent(FileWriter& writer, const Tensors& tensors) {
  const std::vector<const TensorToWrite*> order = FileOrder(tensors);
  const std::string header = Header(order);
  const auto length = static_cast<uint64_t>(header.size());
  writer.Write(&length, sizeof(length));
  writer.Write(header);
  for (const TensorToWrite* tensor : order) {
    const int64_t bytes = BytesOf(*tensor);
    if (bytes == 0) continue;
    if (tensor->data != nullptr) {
      WriteBytes(writer, tensor->data, bytes);
    } else if (tensor->fill) {
      const auto buffer = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
      tensor->fill(buffer.get(), bytes);
      WriteBytes(writer, buffer.get(), bytes);
    } else {
      throw InternalError("tensor '{}' to be written has no bytes", tensor->name);
    }
  }
}

std::string ShardName(size_t shard, size_t shards) {
  if (shards == 1) return "model.safetensors";
  return fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
}

// Files that have their names already but are worth nothing until the last one has its own: removed
// unless Keep is called.
class CommittedFiles {
 public:
  CommittedFiles() = default;
  ~CommittedFiles() {
    std::error_code ignored;
    for (const Path& path : paths_) std::filesystem::remove(path, ignored);
  }
  CommittedFiles(const CommittedFiles&) = delete;
  CommittedFiles& operator=(const CommittedFiles&) = delete;
  void Add(Path path) { paths_.push_back(std::move(path)); }
  void Keep() { paths_.clear(); }

 private:
  std::vector<Path> paths_;
};

}  // namespace

void WriteSafetensorsFile(const Path& path, const Tensors& tensors, FileLayer& layer) {
  FileWriter writer(path, layer);
  WriteContent(writer, tensors);
  writer.Commit();
}

SafetensorsWriter::SafetensorsWriter(Path folder, int64_t max_shard_bytes, FileLayer& layer)
    : folder_(std::move(folder)), max_shard_bytes_(max_shard_bytes), layer_(layer) {}

void SafetensorsWriter::Add(TensorToWrite tensor) { tensors_.push_back(std::move(tensor)); }

std::vector<Tensors> SafetensorsWriter::CutIntoShards() const {
  std::vector<Tensors> shards(1);
  int64_t used = 0;
  for (const TensorToWrite& tensor : tensors_) {
    const int64_t bytes = BytesOf(tensor);
    if (!shards.back().empty() && used + bytes > max_shard_bytes_) {
      shards.emplace_back();
      used = 0;
    }
    shards.back().push_back(tensor);
    used += bytes;
  }
  return shards;
}

std::string SafetensorsWriter::Index(const std::vector<Tensors>& shards) const {
  int64_t total = 0;
  std::map<std::string, std::string> weight_map;  // sorted by name, as the hub's are
  for (size_t i = 0; i < shards.size(); ++i) {
    for (const TensorToWrite& tensor : shards[i]) {
      total += BytesOf(tensor);
      if (!weight_map.emplace(tensor.name, ShardName(i, shards.size())).second) {
        throw InternalError("two tensors to be written are named '{}'", tensor.name);
      }
    }
  }
  Json index;
  index["metadata"]["total_size"] = total;
  index["weight_map"] = weight_map;
  return index.dump(2) + "\n";
}

void SafetensorsWriter::Write() const {
  const std::vector<Tensors> shards = CutIntoShards();
  const std::string single = "model.safetensors";
  const std::string index_name = single + ".index.json";
  const std::string& other = shards.size() == 1 ? index_name : single;
  if (std::filesystem::exists(folder_ / other)) {
    throw RunError("{}: already holds weights in another layout ({}); choose an empty folder",
                   folder_.string(), other);
  }
  std::vector<std::unique_ptr<FileWriter>> writers;
  std::vector<Path> paths;
  for (size_t i = 0; i < shards.size(); ++i) {
    paths.push_back(folder_ / ShardName(i, shards.size()));
    writers.push_back(std::make_unique<FileWriter>(paths.back(), layer_));
    WriteContent(*writers.back(), shards[i]);
  }
  if (shards.size() > 1) {
    paths.push_back(folder_ / index_name);
    writers.push_back(std::make_unique<FileWriter>(paths.back(), layer_));
    writers.back()->Write(Index(shards));
  }
  CommittedFiles committed;
  for (size_t i = 0; i < writers.size(); ++i) {
    writers[i]->Commit();
    committed.Add(paths[i]);
  }
  committed.Keep();
}

}  // namespace lazytrain
