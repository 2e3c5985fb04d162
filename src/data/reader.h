// Data files as a stream of raw examples: `.txt` (documents split at blank lines), `.jsonl` (one
// object a line) and `.json` (an array of objects).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/file.h"
#include "core/json.h"

namespace lazytrain {

struct RawExample {
  std::shared_ptr<const std::string> file;  // its name, shared by all examples of the file
  int64_t line = 0;                         // where the example begins, from 1
  std::string text;                         // of a .txt file: the whole document, else empty
  Json fields;                              // of the other files: an object; null for .txt

  bool is_text() const { return fields.is_null(); }
  std::string place() const;  // "data/train.jsonl:12"
};

// The data files at `path`: itself, or every supported file directly inside a folder, sorted by
// name (hidden files and dataset_info.json are none). Throws Error: missing, a file type that is
// not supported, a folder without data files.
std::vector<Path> DataFiles(const Path& path);

// Calls `receive` for every example of the file, in order. A byte order mark at the start is
// dropped. Throws Error "<file>:<line>: ...".
//   .txt    blank lines (empty or white space only) separate documents; the line ends inside a
//           document stay, the last one goes. Must be UTF-8.
//   .jsonl  blank lines are skipped
//   .json   one example in memory at a time
void ReadExamples(const Path& file, const std::function<void(RawExample)>& receive);

}  // namespace lazytrain
