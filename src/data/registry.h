// Data sets by name: `dataset_info.json` in the data set folder.
//   {"gsm8k": {"file_name": "gsm8k/train.jsonl",
//              "columns": {"query": "question", "response": "answer"}}, ...}
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/file.h"

namespace lazytrain {

// Where a data set's examples are, and its own names for the fields (those given replace the
// configured ones).
struct DatasetSource {
  std::vector<Path> files;
  std::optional<std::string> text_field;
  std::optional<std::string> query_field;
  std::optional<std::string> response_field;
};

// The source called `name`; its file_name is a file or a folder, relative to `dataset_dir`. Throws
// Error: no registry, a name it does not have (with the nearest ones), an entry without file_name
// or with keys that are not supported.
DatasetSource FindDataset(std::string_view name, const Path& dataset_dir);

// A file or folder as a source, without names of its own.
DatasetSource DatasetAt(const Path& path);

}  // namespace lazytrain
