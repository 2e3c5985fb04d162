#include "weights/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/json.h"

namespace lazytrain {
namespace {

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr std::string_view kMetadata = "__metadata__";
constexpr std::string_view kRemedy = "download or copy the file again";

// Every data type of the format, so that a file may hold tensors that nobody asks for.
struct FormatDType {
  std::string_view name;
  int64_t bits;
  std::optional<DType> dtype;
};

constexpr std::array kFormatDTypes = {
    FormatDType{"F32", 32, DType::kF32},         FormatDType{"BF16", 16, DType::kBF16},
    FormatDType{"F16", 16, DType::kF16},         FormatDType{"I32", 32, DType::kI32},
    FormatDType{"I64", 64, DType::kI64},         FormatDType{"U8", 8, DType::kU8},
    FormatDType{"F64", 64, std::nullopt},        FormatDType{"U64", 64, std::nullopt},
    FormatDType{"C64", 64, std::nullopt},        FormatDType{"U32", 32, std::nullopt},
    FormatDType{"I16", 16, std::nullopt},        FormatDType{"U16", 16, std::nullopt},
    FormatDType{"I8", 8, std::nullopt},          FormatDType{"BOOL", 8, std::nullopt},
    FormatDType{"F8_E4M3", 8, std::nullopt},     FormatDType{"F8_E5M2", 8, std::nullopt},
    FormatDType{"F8_E8M0", 8, std::nullopt},     FormatDType{"F8_E4M3FNUZ", 8, std::nullopt},
    FormatDType{"F8_E5M2FNUZ", 8, std::nullopt}, FormatDType{"F6_E2M3", 6, std::nullopt},
    FormatDType{"F6_E3M2", 6, std::nullopt},     FormatDType{"F4", 4, std::nullopt},
};

// Unlike core's Json this one finds keys in logarithmic time: thousands of tensors are usual.
using HeaderJson = nlohmann::json;

// A tensor as the header tells it; offsets count from the header's end.
struct HeaderEntry {
  std::string name;
  const FormatDType* type = nullptr;
  Shape shape;
  int64_t begin = 0;
  int64_t end = 0;
};

Error BadTensor(const Path& path, std::string_view name, const std::string& what) {
  return RunError("{}: tensor '{}': {}; {}", path.string(), name, what, kRemedy);
}

Error Truncated(const Path& path, int64_t expected, int64_t present, const std::string& where) {
  return RunError("{}: truncated: {} bytes are expected and {} are present ({} is incomplete); {}",
                  path.string(), expected, present, where, kRemedy);
}

std::optional<int64_t> NonNegative(const HeaderJson& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto number = value.get<uint64_t>();
  if (number > uint64_t{std::numeric_limits<int64_t>::max()}) return std::nullopt;
  return static_cast<int64_t>(number);
}

// The header's text; checks that it is all there.
std::string_view HeaderText(const MappedFile& file) {
  const auto present = static_cast<int64_t>(file.bytes().size());
  const auto* text = reinterpret_cast<const char*>(file.bytes().data());
  const std::string_view start(text, static_cast<size_t>(std::min<int64_t>(present, 64)));
  if (start.starts_with("version https://git-lfs")) {
    throw RunError("{}: is a Git LFS pointer, not the file itself; fetch it with `git lfs pull`",
                   file.path().string());
  }
  if (present < kLengthBytes) {
    throw Truncated(file.path(), kLengthBytes, present, "the header's length");
  }
  uint64_t length = 0;
  std::memcpy(&length, text, sizeof(length));
  if (length > uint64_t{kMaxHeaderBytes}) {
    throw RunError("{}: is not a safetensors file: its header would have {} bytes; {}",
                   file.path().string(), length, kRemedy);
  }
  const auto bytes = static_cast<int64_t>(length);
  if (present < kLengthBytes + bytes) {
    throw Truncated(file.path(), kLengthBytes + bytes, present, "the header");
  }
  return {text + kLengthBytes, static_cast<size_t>(bytes)};
}

// Not core's ParseJson: positions here are bytes of a binary file, and names must not repeat.
HeaderJson ParseHeader(std::string_view text, const Path& path) {
  constexpr int kMaxDepth = 8;  // a header needs 3; frees of deep values recurse
  if (!text.starts_with('{')) {
    throw RunError("{}: malformed header: byte {} is not '{{'; {}", path.string(), kLengthBytes,
                   kRemedy);
  }
  std::set<std::string> names;
  const auto check = [&](int depth, HeaderJson::parse_event_t event, HeaderJson& value) {
    if (depth > kMaxDepth) {
      throw RunError("{}: malformed header: nested more than {} levels deep; {}", path.string(),
                     kMaxDepth, kRemedy);
    }
    if (event == HeaderJson::parse_event_t::key && depth == 1 &&
        !names.insert(value.get<std::string>()).second) {
      throw BadTensor(path, value.get<std::string>(), "the header names it twice");
    }
    return true;
  };
  try {
    return HeaderJson::parse(text, check);
  } catch (const HeaderJson::parse_error& error) {
    const int64_t offset = error.byte > 0 ? static_cast<int64_t>(error.byte) - 1 : 0;
    throw RunError("{}: malformed header: byte {} cannot be read as JSON; {}", path.string(),
                   kLengthBytes + offset, kRemedy);
  }
}

// The bytes of a tensor, or nothing when they are no whole number or pass int64.
std::optional<int64_t> BytesOf(const FormatDType& type, const Shape& shape) {
  int64_t bits = type.bits;
  bool overflow = false;
  for (const int64_t size : shape) {
    if (size == 0) return 0;
    overflow |= __builtin_mul_overflow(bits, size, &bits);
  }
  if (overflow || bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

HeaderEntry ParseEntry(const std::string& name, const HeaderJson& value, const Path& path) {
  HeaderEntry entry;
  entry.name = name;
  if (!value.is_object()) throw BadTensor(path, name, "its header entry is not an object");
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!value.contains(key)) {
      throw BadTensor(path, name, fmt::format("its header entry lacks '{}'", key));
    }
  }
  const HeaderJson& dtype = value["dtype"];
  for (const FormatDType& type : kFormatDTypes) {
    if (dtype.is_string() && dtype.get_ref<const std::string&>() == type.name) entry.type = &type;
  }
  if (entry.type == nullptr) {
    throw BadTensor(path, name, fmt::format("unknown data type {}", dtype.dump()));
  }
  if (!value["shape"].is_array()) throw BadTensor(path, name, "its shape is not an array");
  for (const HeaderJson& size : value["shape"]) {
    const std::optional<int64_t> number = NonNegative(size);
    if (!number) throw BadTensor(path, name, fmt::format("its shape holds {}", size.dump()));
    entry.shape.push_back(*number);
  }
  const HeaderJson& offsets = value["data_offsets"];
  const bool pair = offsets.is_array() && offsets.size() == 2 && NonNegative(offsets[0]) &&
                    NonNegative(offsets[1]);
  if (!pair || *NonNegative(offsets[0]) > *NonNegative(offsets[1])) {
    throw BadTensor(path, name, fmt::format("its data_offsets are {}", offsets.dump()));
  }
  entry.begin = *NonNegative(offsets[0]);
  entry.end = *NonNegative(offsets[1]);
  const std::optional<int64_t> bytes = BytesOf(*entry.type, entry.shape);
  if (bytes != entry.end - entry.begin) {
    throw BadTensor(path, name,
                    fmt::format("shape {} of {} does not fit its {} bytes", ToString(entry.shape),
                                entry.type->name, entry.end - entry.begin));
  }
  return entry;
}

// Entries in file order must cover the bytes after the header exactly. `header_end` and
// `file_bytes` count from the file's start.
void CheckCoverage(std::vector<HeaderEntry>& entries, int64_t header_end, int64_t file_bytes,
                   const Path& path) {
  std::sort(entries.begin(), entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  int64_t covered = 0;
  for (const HeaderEntry& entry : entries) {
    if (entry.begin < covered) {
      throw BadTensor(
          path, entry.name,
          fmt::format("begins at byte {} of the data, inside another tensor that ends at {}",
                      entry.begin, covered));
    }
    if (entry.begin > covered) {
      throw BadTensor(
          path, entry.name,
          fmt::format("begins at byte {} of the data, but the tensor before it ends at {}",
                      entry.begin, covered));
    }
    covered = entry.end;
  }
  const int64_t data_bytes = file_bytes - header_end;
  for (const HeaderEntry& entry : entries) {
    if (entry.end > data_bytes) {
      int64_t expected = 0;
      if (__builtin_add_overflow(header_end, covered, &expected)) expected = covered;
      throw Truncated(path, expected, file_bytes, fmt::format("tensor '{}'", entry.name));
    }
  }
  if (data_bytes > covered) {
    throw RunError("{}: {} bytes are expected and {} are present: {} bytes belong to no tensor; {}",
                   path.string(), header_end + covered, file_bytes, data_bytes - covered, kRemedy);
  }
}

std::map<std::string, std::string, std::less<>> ParseMetadata(const HeaderJson& value,
                                                              const Path& path) {
  std::map<std::string, std::string, std::less<>> metadata;
  if (!value.is_object()) {
    throw RunError("{}: malformed header: {} is not an object; {}", path.string(), kMetadata,
                   kRemedy);
  }
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) {
      throw RunError("{}: malformed header: '{}' of {} is not a string; {}", path.string(), key,
                     kMetadata, kRemedy);
    }
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const Path& path) : file_(path) {
  const std::string_view text = HeaderText(file_);
  const HeaderJson header = ParseHeader(text, path);
  std::vector<HeaderEntry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadata) {
      metadata_ = ParseMetadata(value, path);
    } else {
      entries.push_back(ParseEntry(name, value, path));
    }
  }
  const int64_t header_end = kLengthBytes + static_cast<int64_t>(text.size());
  CheckCoverage(entries, header_end, static_cast<int64_t>(file_.bytes().size()), path);
  const std::byte* data = file_.bytes().data() + header_end;
  for (HeaderEntry& entry : entries) {
    if (entry.type->dtype) {
      tensors_[entry.name] = {*entry.type->dtype, std::move(entry.shape), data + entry.begin,
                              entry.end - entry.begin};
    } else {
      unsupported_[entry.name] = entry.type->name;
    }
  }
}

bool SafetensorsFile::Contains(std::string_view name) const {
  return tensors_.contains(name) || unsupported_.contains(name);
}

const StoredTensor& SafetensorsFile::Find(std::string_view name) const {
  if (const auto it = tensors_.find(name); it != tensors_.end()) return it->second;
  if (const auto it = unsupported_.find(name); it != unsupported_.end()) {
    throw RunError("{}: tensor '{}' is stored as {}, which is not supported; convert it to BF16",
                   path().string(), name, it->second);
  }
  throw RunError("{}: has no tensor '{}'; is it the file of another model?", path().string(), name);
}

Checkpoint::Checkpoint(const Path& folder) : folder_(folder) {
  if (!std::filesystem::is_directory(folder)) {
    throw RunError("{}: is not a folder; give a model folder with model.safetensors in it",
                   folder.string());
  }
  const Path single = folder / "model.safetensors";
  const Path index = folder / "model.safetensors.index.json";
  if (std::filesystem::exists(single)) {
    shards_.emplace_back(single);
    for (const auto& [name, tensor] : shards_[0].tensors()) shard_of_[name] = 0;
    for (const auto& [name, dtype] : shards_[0].unsupported()) shard_of_[name] = 0;
  } else if (std::filesystem::exists(index)) {
    ReadIndex(index);
  } else {
    throw RunError(
        "{}: has no weights: neither model.safetensors nor model.safetensors.index.json is there; "
        "download them, or convert other formats to safetensors",
        folder.string());
  }
  for (const auto& [name, shard] : shard_of_) names_.push_back(name);
}

void Checkpoint::ReadIndex(const Path& index) {
  const Json json = ReadJsonFile(index);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    throw RunError("{}: has no object 'weight_map'; {}", index.string(), kRemedy);
  }
  std::map<std::string, size_t> opened;
  for (const auto& [name, value] : json["weight_map"].items()) {
    if (!value.is_string()) {
      throw RunError("{}: tensor '{}': its shard is not a string; {}", index.string(), name,
                     kRemedy);
    }
    const auto shard = value.get<std::string>();
    if (shard.empty() || Path(shard).filename() != shard || shard == "." || shard == "..") {
      throw RunError("{}: tensor '{}': shard '{}' is not the name of a file in this folder",
                     index.string(), name, shard);
    }
    auto it = opened.find(shard);
    if (it == opened.end()) {
      if (!std::filesystem::exists(folder_ / shard)) {
        throw RunError("{}: shard {} (with tensor '{}') is missing; download it", index.string(),
                       (folder_ / shard).string(), name);
      }
      it = opened.emplace(shard, shards_.size()).first;
      shards_.emplace_back(folder_ / shard);
    }
    if (!shards_[it->second].Contains(name)) {
      throw RunError("{}: lacks tensor '{}', which {} places there; download both again",
                     (folder_ / shard).string(), name, index.filename().string());
    }
    shard_of_[name] = it->second;
  }
}

const SafetensorsFile& Checkpoint::ShardOf(std::string_view name) const {
  const auto it = shard_of_.find(name);
  if (it == shard_of_.end()) {
    throw RunError("{}: has no tensor '{}'; do its weights and config.json belong together?",
                   folder_.string(), name);
  }
  return shards_[it->second];
}

const StoredTensor& Checkpoint::Find(std::string_view name) const {
  return ShardOf(name).Find(name);
}

const Path& Checkpoint::FileOf(std::string_view name) const { return ShardOf(name).path(); }

}  // namespace lazytrain
