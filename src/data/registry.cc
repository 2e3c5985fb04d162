#include "data/registry.h"

#include "core/error.h"
#include "core/json.h"
#include "core/nearest.h"
#include "data/reader.h"

namespace lazytrain {
namespace {

// "'gsm8k', 'gsm8k_test'": at most three, nearest first.
std::string NearestIn(const Json& registry, std::string_view name) {
  std::vector<std::string> names;
  for (const auto& [key, entry] : registry.items()) names.push_back(key);
  std::string list;
  for (const std::string& nearest : NearestNames(name, names, 3)) {
    list += fmt::format("{}'{}'", list.empty() ? "" : ", ", nearest);
  }
  return list;
}

std::string StringAt(const Json& value, const std::string& place) {
  if (!value.is_string() || value.get_ref<const std::string&>().empty()) {
    throw UsageError("{} must be a non-empty string", place);
  }
  return value.get<std::string>();
}

void ReadColumns(const Json& columns, const std::string& place, DatasetSource* source) {
  if (!columns.is_object()) throw UsageError("{}: 'columns' must be an object", place);
  for (const auto& [key, value] : columns.items()) {
    const std::string column = StringAt(value, fmt::format("{}: column '{}'", place, key));
    if (key == "text") {
      source->text_field = column;
    } else if (key == "query") {
      source->query_field = column;
    } else if (key == "response") {
      source->response_field = column;
    } else {
      throw UsageError("{}: column '{}' is not supported; text, query and response are", place,
                       key);
    }
  }
}

}  // namespace

DatasetSource DatasetAt(const Path& path) {
  DatasetSource source;
  source.files = DataFiles(path);
  return source;
}

DatasetSource FindDataset(std::string_view name, const Path& dataset_dir) {
  const Path file = dataset_dir / "dataset_info.json";
  if (!std::filesystem::exists(file)) {
    throw UsageError(
        "{}: is missing, so data set '{}' cannot be found; set dataset.dataset_dir to "
        "the folder that has it, or dataset.path to a file or folder",
        file.string(), name);
  }
  const Json registry = ReadJsonFile(file);
  if (!registry.is_object()) {
    throw UsageError("{}: must be an object of data sets by name", file.string());
  }
  const auto it = registry.find(std::string(name));
  if (it == registry.end()) {
    if (registry.empty())
      throw UsageError("{}: has no data set '{}'; it is empty", file.string(), name);
    throw UsageError("{}: has no data set '{}'; the nearest names there: {}", file.string(), name,
                     NearestIn(registry, name));
  }
  const std::string place = fmt::format("{}: data set '{}'", file.string(), name);
  if (!it->is_object() || !it->contains("file_name")) {
    throw UsageError("{}: has no 'file_name'; data sets are read from local files only", place);
  }
  DatasetSource source;
  for (const auto& [key, value] : it->items()) {
    if (key == "file_name") {
      source.files = DataFiles(dataset_dir / StringAt(value, fmt::format("{}: '{}'", place, key)));
    } else if (key == "columns") {
      ReadColumns(value, place, &source);
    } else {
      throw UsageError("{}: key '{}' is not supported; file_name and columns are", place, key);
    }
  }
  return source;
}

}  // namespace lazytrain
