#include "train/config/settings.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "core/error.h"

namespace lazytrain {
namespace {

constexpr size_t kMaxBytes = 1'000'000;
constexpr int kMaxDepth = 50;

// A YAML text in messages: lines of a file count, those of a command line do not.
struct Source {
  std::string name;
  bool has_lines = true;

  std::string AtLine(int64_t line) const {  // from 0; below: unknown
    return has_lines ? fmt::format("{}:{}", name, std::max<int64_t>(line, 0) + 1) : name;
  }
  std::string At(std::string_view text, size_t offset) const {
    return AtLine(std::count(text.begin(), text.begin() + static_cast<int64_t>(offset), '\n'));
  }
};

// Whether the character at `offset` has only white space before it in its line.
bool IsIndentation(std::string_view text, size_t offset) {
  const size_t before = text.find_last_not_of(" \t", offset);
  return before == std::string_view::npos || text[before] == '\n' || text[before] == '\r';
}

bool IsBlankLine(std::string_view text, size_t offset) {
  const size_t next = text.find_first_not_of(" \t\r", offset);
  return next == std::string_view::npos || text[next] == '\n' || text[next] == '#';
}

// What the parser would take wrongly or without end. It stops at a control-D, for one, and each
// level of nesting costs it some stack, so brackets are counted, those in strings and comments too.
void CheckText(std::string_view text, const Source& source) {
  if (text.size() > kMaxBytes) {
    throw UsageError("{}: has {} bytes; a configuration has at most {}", source.name, text.size(),
                     kMaxBytes);
  }
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '\t' && IsIndentation(text, i) && !IsBlankLine(text, i)) {
      throw UsageError("{}: is indented with a tab; use spaces", source.At(text, i));
    }
    if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f) {
      throw UsageError("{}: has a control character (0x{:02x}); remove it, or save as UTF-8",
                       source.At(text, i), c);
    }
    if (c == '[' || c == '{') ++depth;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    if (depth > kMaxDepth) {
      throw UsageError("{}: is nested more than {} levels deep; no key here needs that",
                       source.At(text, i), kMaxDepth);
    }
  }
}

// Only where documents begin.
class DocumentLines : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { last_ = mark.line; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

  int last() const { return last_; }

 private:
  int last_ = 0;
};

// Refuses what stands behind the first document. (YAML::LoadAll would hand it out, but never comes
// back from a stray comma or bracket: an empty document begins there again and again.)
void CheckOneDocument(const std::string& text, const Source& source) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentLines lines;
  if (parser.HandleNextDocument(lines) && parser.HandleNextDocument(lines)) {
    throw UsageError(
        "{}: begins a second YAML document, or has a stray comma or bracket; give one document",
        source.AtLine(lines.last()));
  }
}

// The one document of the text, null when there is none; the library's errors as ours.
YAML::Node Parse(std::string_view text, const Source& source) {
  CheckText(text, source);
  // A line break at the end would close a quote that nobody closed.
  const std::string trimmed(text.substr(0, text.find_last_not_of(" \t\r\n") + 1));
  try {
    CheckOneDocument(trimmed, source);
    return YAML::Load(trimmed);
  } catch (const YAML::Exception& error) {
    throw UsageError(
        "{}: malformed YAML: {}; look for a wrong indentation, quote or colon there or above",
        source.AtLine(error.mark.line), Shown(error.msg));
  }
}

Scalar ScalarOf(const YAML::Node& node) {
  // The parser's tags: "?" plain, "!" quoted; others were written by the user ("!!str 5").
  return {node.Scalar(), node.Tag() != "?"};
}

void ReadValue(const YAML::Node& node, Setting* setting) {
  setting->kind = Setting::Kind::kEmpty;
  if (node.IsMap()) setting->kind = Setting::Kind::kMapping;
  if (node.IsScalar()) {
    setting->kind = Setting::Kind::kScalar;
    setting->items = {ScalarOf(node)};
  }
  if (!node.IsSequence()) return;
  setting->kind = Setting::Kind::kList;
  for (const YAML::Node& item : node) {
    if (!item.IsScalar()) {
      throw UsageError("{}: has an item that is no single value; give a flat list, as in [a, b]",
                       setting->Where());
    }
    setting->items.push_back(ScalarOf(item));
  }
}

class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  std::vector<Setting> Read(const YAML::Node& root) {
    if (!root.IsMap()) {
      throw UsageError(
          "{}: is no mapping of keys; write sections as in 'training:' and, indented "
          "below, 'batch_size: 8'",
          PlaceOf(root));
    }
    std::map<std::string, std::string> sections;  // -> its place
    for (const auto& entry : root) {
      const std::string name = KeyOf(entry.first);
      if (!entry.second.IsMap()) {
        Add(name, entry.first, entry.second);
        continue;
      }
      const auto [it, is_new] = sections.try_emplace(name, PlaceOf(entry.first));
      if (!is_new) {
        throw UsageError("{}: {}: stands at {} already; move these keys there",
                         PlaceOf(entry.first), Shown(name), it->second);
      }
      for (const auto& inner : entry.second) {
        Add(name + "." + KeyOf(inner.first), inner.first, inner.second);
      }
    }
    return std::move(settings_);
  }

 private:
  std::string PlaceOf(const YAML::Node& node) const {
    return fmt::format("{}:{}", file_, std::max(node.Mark().line, 0) + 1);
  }

  std::string KeyOf(const YAML::Node& node) const {
    if (!node.IsScalar()) throw UsageError("{}: has a key that is no plain word", PlaceOf(node));
    return node.Scalar();
  }

  void Add(std::string key, const YAML::Node& key_node, const YAML::Node& value) {
    Setting setting{.key = std::move(key), .given_as = "", .place = PlaceOf(key_node)};
    ReadValue(value, &setting);
    settings_.push_back(std::move(setting));
  }

  std::string file_;
  std::vector<Setting> settings_;
};

}  // namespace

std::string Shown(std::string_view text) {
  constexpr size_t kLongest = 80;
  size_t end = std::min(text.size(), kLongest);
  if (end < text.size()) {  // not in the middle of a UTF-8 sequence
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  }
  std::string shown(text.substr(0, end));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return end < text.size() ? shown + "..." : shown;
}

std::string Setting::Where() const {
  if (given_as.empty()) return fmt::format("{}: {}", place, Shown(key));
  return fmt::format("{}: {} (given as {})", place, Shown(key), Shown(given_as));
}

std::vector<Setting> ReadSettings(std::string_view text, std::string_view file) {
  const YAML::Node root = Parse(text, {.name = std::string(file)});
  if (root.IsNull()) return {};
  return Reader(file).Read(root);
}

Setting ReadOverride(std::string_view text, std::string_view place) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw UsageError("{}: '{}' is no setting; give key=value, as in training.batch_size=8", place,
                     Shown(text));
  }
  Setting setting{
      .key = std::string(text.substr(0, equals)), .given_as = "", .place = std::string(place)};
  const std::string_view value = text.substr(equals + 1);
  if (value.empty()) {
    setting.kind = Setting::Kind::kScalar;
    setting.items = {{"", true}};
  } else {
    ReadValue(Parse(value, {.name = setting.Where(), .has_lines = false}), &setting);
  }
  return setting;
}

}  // namespace lazytrain
