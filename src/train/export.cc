#include "train/export.h"

#include <array>
#include <functional>
#include <string_view>

#include "core/error.h"
#include "core/json.h"
#include "weights/parameters.h"

namespace lazytrain {
namespace {

// What a hub folder holds beside config.json and weights.
constexpr std::array<std::string_view, 11> kSideFiles = {"tokenizer.json",
                                                         "tokenizer.model",
                                                         "tokenizer_config.json",
                                                         "special_tokens_map.json",
                                                         "added_tokens.json",
                                                         "vocab.json",
                                                         "merges.txt",
                                                         "chat_template.jinja",
                                                         "chat_template.json",
                                                         "generation_config.json",
                                                         "preprocessor_config.json"};

// "out/" names the same folder as "out", but nothing could be renamed to it.
Path WithoutLastSlash(const Path& folder) {
  const Path normal = folder.lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

// Fills a folder beside `target` and gives it its name when everything is there.
void MakeFolder(const Path& wanted, const std::function<void(const Path&)>& fill) {
  const Path target = WithoutLastSlash(wanted);
  if (std::filesystem::exists(target)) {
    throw RunError("{}: is there already; choose another folder or remove it", target.string());
  }
  MakeWritableFolder(target.has_parent_path() ? target.parent_path() : ".");
  const Path partial = target.string() + ".partial";
  std::filesystem::remove_all(partial);
  MakeWritableFolder(partial);
  try {
    fill(partial);
    std::filesystem::rename(partial, target);
  } catch (const std::filesystem::filesystem_error& error) {
    std::error_code ignored;
    std::filesystem::remove_all(partial, ignored);
    throw RunError("{}: {}; free some space or choose another folder", target.string(),
                   error.code().message());
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove_all(partial, ignored);
    throw;
  }
}

void CopySideFiles(const Path& source, const Path& target) {
  for (const std::string_view name : kSideFiles) {
    if (std::filesystem::exists(source / name)) {
      std::filesystem::copy_file(source / name, target / name);
    }
  }
}

}  // namespace

void ExportModel(const TrainingEngine& engine, const Path& source, const Path& target) {
  const ModelGraph& model = engine.programs().model();
  MakeFolder(target, [&](const Path& folder) {
    CopySideFiles(source, folder);
    Json config = ReadJsonFile(source / "config.json");
    // transformers 5 writes "dtype", 4 "torch_dtype"; whichever is there says what the file holds.
    const bool new_style = config.contains("dtype");
    config[new_style ? "dtype" : "torch_dtype"] = std::string(Name(model.dtype));
    WriteFile(folder / "config.json", config.dump(2) + "\n");
    SafetensorsWriter writer(folder);
    AddModelTensors(
        model, [&](size_t unit) { return engine.Weights(unit); }, writer);
    writer.Write();
  });
}

void CopyModelFolder(const Path& source, const Path& target) {
  MakeFolder(target, [&](const Path& folder) {
    for (const auto& entry : std::filesystem::directory_iterator(source)) {
      std::filesystem::copy_file(entry.path(), folder / entry.path().filename());
    }
  });
}

}  // namespace lazytrain
