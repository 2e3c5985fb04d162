#include "data/reader.h"

#include <algorithm>
#include <cctype>

#include "core/error.h"
#include "core/log.h"
#include "data/tokenizer/utf8.h"

namespace lazytrain {
namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";

std::string Extension(const Path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension;
}

bool IsSupported(const Path& path) {
  const std::string extension = Extension(path);
  return extension == ".txt" || extension == ".jsonl" || extension == ".json";
}

bool IsKnownButUnsupported(const Path& path) {
  const std::string extension = Extension(path);
  return extension == ".csv" || extension == ".parquet" || extension == ".arrow";
}

Error Unsupported(const Path& path) {
  return UsageError("{}: files of type '{}' are not supported yet; use .txt, .jsonl or .json",
                    path.string(), Extension(path));
}

std::vector<Path> FilesOfFolder(const Path& folder) {
  std::vector<Path> files;
  std::vector<Path> unsupported;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || name.starts_with('.') || name == "dataset_info.json") continue;
    if (IsSupported(entry.path())) files.push_back(entry.path());
    if (IsKnownButUnsupported(entry.path())) unsupported.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::sort(unsupported.begin(), unsupported.end());
  if (files.empty() && !unsupported.empty()) throw Unsupported(unsupported[0]);
  if (files.empty()) {
    throw UsageError("{}: has no data files; put .txt, .jsonl or .json files there",
                     folder.string());
  }
  if (!unsupported.empty()) {
    Warn("{}: {} of a type that is not supported yet {} left out, {} first", folder.string(),
         unsupported.size(), unsupported.size() == 1 ? "is" : "are",
         unsupported[0].filename().string());
  }
  return files;
}

bool IsBlank(std::string_view line) {
  return line.find_first_not_of(kWhiteSpace) == std::string_view::npos;
}

// Lines of a text with their numbers; a line keeps its line end.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}

  bool Next(std::string_view* line) {
    if (rest_.empty()) return false;
    const size_t end = rest_.find('\n');
    *line = rest_.substr(0, end == std::string_view::npos ? rest_.size() : end + 1);
    rest_.remove_prefix(line->size());
    ++number_;
    return true;
  }
  int64_t number() const { return number_; }

 private:
  std::string_view rest_;
  int64_t number_ = 0;
};

void CheckUtf8(std::string_view text, const std::string& name, int64_t line) {
  if (IsValidUtf8(text)) return;
  throw RunError("{}:{}: is not UTF-8; convert the file, for example with iconv", name, line);
}

using Receive = std::function<void(RawExample)>;
using Name = std::shared_ptr<const std::string>;

void ReadText(std::string_view text, const Name& name, const Receive& receive) {
  Lines lines(text);
  std::string_view line;
  std::string document;
  int64_t first_line = 0;
  const auto finish = [&] {
    if (document.empty()) return;
    if (document.ends_with('\n')) document.pop_back();
    if (document.ends_with('\r')) document.pop_back();
    receive({name, first_line, std::move(document), nullptr});
    document.clear();
  };
  while (lines.Next(&line)) {
    if (IsBlank(line)) {
      finish();
      continue;
    }
    CheckUtf8(line, *name, lines.number());
    if (document.empty()) first_line = lines.number();
    document += line;
  }
  finish();
}

Json ParseObject(std::string_view text, const std::string& name, int64_t line) {
  Json value = ParseJson(text, name, line);
  if (!value.is_object()) {
    throw RunError("{}:{}: is a JSON {}; every example must be an object", name, line,
                   value.type_name());
  }
  return value;
}

void ReadJsonLines(std::string_view text, const Name& name, const Receive& receive) {
  Lines lines(text);
  std::string_view line;
  while (lines.Next(&line)) {
    if (IsBlank(line)) continue;
    // Without its line end, past which the parser would report an object that is cut short.
    if (line.ends_with('\n')) line.remove_suffix(1);
    CheckUtf8(line, *name, lines.number());
    receive({name, lines.number(), "", ParseObject(line, *name, lines.number())});
  }
}

// Cuts a JSON array of objects into the texts of its elements, so that each is parsed on its own
// with its line number.
class ArrayCutter {
 public:
  ArrayCutter(std::string_view text, const std::string& name) : text_(text), name_(name) {
    SkipWhiteSpace();
    if (Peek() == '{') {
      throw RunError(
          "{}:{}: a .json file must hold an array of objects; name it .jsonl if it has "
          "one object a line",
          name_, line_);
    }
    Expect('[', "'[' of an array of objects");
    SkipWhiteSpace();
    done_ = Peek() == ']';
    if (done_) Finish();
  }

  // The next element's text and line; false after the last one.
  bool Next(std::string_view* element, int64_t* line) {
    if (done_) return false;
    SkipWhiteSpace();
    if (Peek() != '{') Fail("an object");
    *line = line_;
    *element = Object();
    CheckUtf8(*element, name_, *line);
    return true;
  }

  // To be called once the element is parsed: what follows it.
  void Advance() {
    SkipWhiteSpace();
    done_ = Peek() == ']';
    if (done_) {
      Finish();
    } else {
      Expect(',', "',' or ']'");
    }
  }

 private:
  // 0 at the end.
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void Step() {
    if (text_[at_] == '\n') ++line_;
    ++at_;
  }

  void SkipWhiteSpace() {
    while (at_ < text_.size() && kWhiteSpace.find(text_[at_]) != std::string_view::npos) Step();
  }

  [[noreturn]] void Fail(std::string_view wanted) const {
    if (at_ >= text_.size()) {
      throw RunError("{}:{}: malformed JSON: the file ends where {} should stand; is it complete?",
                     name_, line_, wanted);
    }
    throw RunError("{}:{}: malformed JSON: {} should stand where '{}' is", name_, line_, wanted,
                   std::string(text_.substr(at_, 1)));
  }

  void Expect(char c, std::string_view wanted) {
    if (at_ >= text_.size() || text_[at_] != c) Fail(wanted);
    Step();
  }

  void Finish() {
    Expect(']', "']'");
    SkipWhiteSpace();
    if (at_ < text_.size()) Fail("the end of the file");
  }

  // From '{' to its '}', or to the end of the file: the parser says what is wrong inside.
  std::string_view Object() {
    const size_t begin = at_;
    int64_t depth = 0;
    bool in_string = false;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (in_string) {
        if (c == '\\' && at_ + 1 < text_.size()) Step();
        in_string = c != '"';
      } else if (c == '"') {
        in_string = true;
      } else if (c == '{') {
        ++depth;
      } else if (c == '}') {
        --depth;
      }
      Step();
      if (depth == 0) break;
    }
    return text_.substr(begin, at_ - begin);
  }

  std::string_view text_;
  const std::string& name_;
  size_t at_ = 0;
  int64_t line_ = 1;
  bool done_ = false;
};

void ReadJsonArray(std::string_view text, const Name& name, const Receive& receive) {
  ArrayCutter cutter(text, *name);
  std::string_view element;
  int64_t line = 0;
  while (cutter.Next(&element, &line)) {
    receive({name, line, "", ParseObject(element, *name, line)});
    cutter.Advance();
  }
}

}  // namespace

std::string RawExample::place() const { return fmt::format("{}:{}", *file, line); }

std::vector<Path> DataFiles(const Path& path) {
  if (!std::filesystem::exists(path)) {
    throw UsageError("{}: no such file or folder; check dataset.path and dataset.dataset_dir",
                     path.string());
  }
  if (std::filesystem::is_directory(path)) return FilesOfFolder(path);
  if (!IsSupported(path)) throw Unsupported(path);
  return {path};
}

void ReadExamples(const Path& file, const Receive& receive) {
  const MappedFile mapped(file);
  std::string_view text(reinterpret_cast<const char*>(mapped.bytes().data()),
                        mapped.bytes().size());
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  const auto name = std::make_shared<const std::string>(file.string());
  const std::string extension = Extension(file);
  if (extension == ".txt") {
    ReadText(text, name, receive);
  } else if (extension == ".jsonl") {
    ReadJsonLines(text, name, receive);
  } else if (extension == ".json") {
    ReadJsonArray(text, name, receive);
  } else {
    throw Unsupported(file);
  }
}

}  // namespace lazytrain
